"""Strict reading of the two files: UTF-8, strict JSON, one object a line, one line in memory at a time."""

import os
from collections.abc import Callable, Iterator
from json import JSONDecodeError, JSONDecoder
from pathlib import Path
from typing import Any, NoReturn

from trainwright.metrics_audit import names
from trainwright.metrics_audit.refusal import InvalidRun
from trainwright.metrics_audit.values import shown

MAX_LINE_BYTES = 8 * 1024 * 1024
"""A longer line, its newline included, is refused."""

BUFFER_BYTES = 1 << 18
PROGRESS_LINES = 1 << 14
_JSON_SPACE = " \t\r\n"


def read_records(path: Path, on_progress: Callable[[int], None] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, record) of every line of a ``metrics.jsonl``, checked as far as any line must be.

    ``on_progress`` is told the bytes read so far every few thousand lines. Raises `InvalidRun`.
    """
    number = 0
    try:
        with path.open("rb", buffering=BUFFER_BYTES) as file:
            while line := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                yield number, record_of(line)
                if on_progress is not None and not number % PROGRESS_LINES:
                    on_progress(file.tell())
    except InvalidRun as refusal:
        raise refusal.at(names.METRICS_FILE, number) from None
    except OSError as error:
        raise InvalidRun(f"cannot be read: {error.strerror}", file=names.METRICS_FILE) from None


def record_of(line: bytes) -> dict[str, Any]:
    """Return the record that one line holds, its newline included. Raises `InvalidRun` without a place.

    A line as the writer makes them passes in a few steps; `_careful_record_of` judges any other.
    """
    try:
        text = line.decode()
        record, end = _decode(text, 0)
    except (ValueError, RecursionError):
        return _careful_record_of(line)
    if text[end:] != "\n" or len(line) > MAX_LINE_BYTES or type(record) is not dict:
        return _careful_record_of(line)
    # Each key stands before one colon. Where the text has no more colons than the record has keys, no key was given
    # twice; otherwise (a colon in a string, a nested object) a careful look decides.
    keys = len(record)
    for value in record.values():
        if type(value) is dict:
            keys += len(value)
    if keys != text.count(":") or type(record.get("session_id")) is not str:
        return _careful_record_of(line)
    return record


def _careful_record_of(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise InvalidRun(f"the line is longer than {MAX_LINE_BYTES} bytes")
    if not line.endswith(b"\n"):
        raise InvalidRun("uncommitted tail: the line has no newline at its end")
    text = _decoded(line).strip(_JSON_SPACE)
    if not text:
        raise InvalidRun("the line is blank")
    record = _parsed(text, _decode_unrepeated)
    if type(record) is not dict:
        raise InvalidRun(f"the line is {shown(record)}; it must be a JSON object")
    if type(record.get("session_id")) is not str:
        raise InvalidRun("session_id is missing or is no string")
    return record


def read_object(path: Path) -> dict[str, Any]:
    """Return the strict JSON object that a small file holds. Raises `InvalidRun`."""
    try:
        text = _decoded(path.read_bytes()).strip(_JSON_SPACE)
        document = _parsed(text, _decode_manifest)
        if type(document) is not dict:
            raise InvalidRun(f"the file holds {shown(document)}; it must be a JSON object")
        return document
    except InvalidRun as refusal:
        raise refusal.at(path.name) from None
    except OSError as error:
        raise InvalidRun(f"cannot be read: {error.strerror}", file=path.name) from None


def require_files(run_directory: Path) -> None:
    """Raise `InvalidRun` unless the directory holds both files of a session log."""
    for name in (names.MANIFEST_FILE, names.METRICS_FILE):
        if not os.path.lexists(run_directory / name):
            raise InvalidRun(f"{str(run_directory)!a} holds no {name}")


def _decoded(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidRun(f"no UTF-8: {error.reason} at byte {error.start + 1}") from None
    if text.startswith("\ufeff"):
        raise InvalidRun("starts with a byte-order mark, which strict JSON does not allow")
    return text


def _parsed(text: str, decode: Callable[[str, int], tuple[Any, int]]) -> Any:
    try:
        document, end = decode(text, 0)
    except JSONDecodeError as error:
        raise InvalidRun(f"no strict JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise InvalidRun("no usable JSON: nested too deeply") from None
    except ValueError as error:
        if isinstance(error, InvalidRun):
            raise
        # Python itself refuses to convert integers of more than 4300 digits.
        raise InvalidRun("no usable JSON: an integer of thousands of digits") from None
    if end != len(text):
        raise InvalidRun(f"no strict JSON: something follows the value at character {end + 1}")
    return document


def _refuse_constant(word: str) -> NoReturn:
    raise InvalidRun(f"no strict JSON: {word} is no number of JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise InvalidRun(f"the number {digits[:40]} is too large")
    return value


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidRun(f"no strict JSON: the key {shown(key)} stands twice in one object")
            seen.add(key)
    return found


_decode = JSONDecoder(parse_constant=_refuse_constant).raw_decode
_decode_unrepeated = JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_unrepeated).raw_decode
# What a summary repeats must be finite down to the last unknown key.
_decode_manifest = JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_unrepeated
).raw_decode
