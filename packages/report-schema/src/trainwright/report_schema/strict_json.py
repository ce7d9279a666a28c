"""Strict JSON: no NaN, no Infinity, no repeated key; files appear whole or not at all."""

import json
import math
import os
from pathlib import Path
from typing import Any, NoReturn

from trainwright.report_schema.errors import ReportError


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
    problem = _unwritable(value, ())
    if problem is not None:
        raise ReportError(problem)
    return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode("ascii")


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


def _unwritable(value: Any, path: tuple[int | str, ...]) -> str | None:
    """What keeps ``value`` from being written as JSON and read back equal; ``None`` when nothing does."""
    match value:
        case None | bool() | str() | int():
            return None
        case float():
            return None if math.isfinite(value) else f"{field_path(path)}: {value} is not a finite number"
        case dict():
            for key, inner in value.items():
                if not isinstance(key, str):
                    return f"{field_path(path)}: the key {key!r} is not a string"
                problem = _unwritable(inner, (*path, key))
                if problem is not None:
                    return problem
            return None
        case list() | tuple():
            return next((p for i, inner in enumerate(value) if (p := _unwritable(inner, (*path, i)))), None)
    return f"{field_path(path)}: {type(value).__name__} cannot be written as JSON"
