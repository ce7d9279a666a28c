"""Strict JSON: no NaN, no Infinity, no repeated key; files appear whole or not at all."""

import json
import math
import os
from pathlib import Path
from typing import Any, NoReturn

from pydantic_core import PydanticSerializationError, to_json

from trainwright.report_schema.errors import ReportError

_PLAIN_TYPES = frozenset({type(None), bool, int, str})


def load_json(path: Path, *, finite: bool = True) -> Any:
    """Read one JSON document.

    Args:
        path: the file.
        finite: whether to refuse NaN, Infinity and numbers that overflow, which some writers let through.

    Raises:
        ReportError: the file cannot be read, or is not strict JSON in UTF-8 (a byte-order mark is passed over).
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror or error}") from None
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ReportError(f"{path}: encoded as UTF-16; expected UTF-8")
    try:
        return json.loads(
            data.decode("utf-8-sig"),
            parse_constant=_refuse_constant if finite else None,
            parse_float=_finite_float if finite else None,
            object_pairs_hook=_unique_keys,
        )
    except UnicodeDecodeError as error:
        raise ReportError(f"{path}: not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise ReportError(f"{path}: not JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise ReportError(f"{path}: not usable JSON: nested too deeply") from None
    except ValueError as error:
        raise ReportError(f"{path}: not strict JSON: {error}") from None


def dump_json(value: Any) -> bytes:
    """The document as indented ASCII JSON, keys in the order given, with a newline at its end.

    Raises:
        ReportError: a number is not finite, or something is not JSON at all; the message names its path.
    """
    problem = _unwritable(value)
    if problem is not None:
        path, said = problem
        raise ReportError(f"{field_path(tuple(path))}: {said}")
    try:
        # The standard library's writer is pure Python once it indents: ten times slower, and as much more memory.
        return to_json(value, indent=2, ensure_ascii=True) + b"\n"
    except PydanticSerializationError as error:
        raise ReportError(f"not writable as JSON: {error}") from None


def write_atomically(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path``: afterwards the file holds all of it, or what it held before.

    Raises:
        ReportError: the directory is missing, full or not writable.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            with scratch.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)
    except OSError as error:
        raise ReportError(f"{path}: cannot be written: {error.strerror or error}") from None


def field_path(parts: tuple[int | str, ...]) -> str:
    """``("steps", 3, "loss")`` as ``steps[3].loss``; the document itself as ``$``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return text.removeprefix(".") or "$"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is larger than any float")
    return number


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {repeated!r} is given twice in one object")
    return found


def _unwritable(value: Any) -> tuple[list[int | str], str] | None:
    """Where and why ``value`` cannot be written as JSON and read back equal; ``None`` when it can."""
    if type(value) in _PLAIN_TYPES:
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else ([], f"{value} is not a finite number")
    if not isinstance(value, dict | list | tuple):
        return [], f"{type(value).__name__} cannot be written as JSON"
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(value, dict) and not isinstance(key, str):
            return [], f"the key {key!r} is not a string"
        problem = None if type(inner) in _PLAIN_TYPES else _unwritable(inner)
        if problem is not None:
            return [key, *problem[0]], problem[1]
    return None
