"""A JSONL file of any size by row number: an index of its lines is built once, and only the rows asked for are parsed.

A line ends at a line feed (or CRLF) and nowhere else: U+2028 is text. A byte order mark at the start and blank lines
are no rows; the last line feed may be missing. `.gz` and `.zst`, known by their first bytes and not by their name, are
decompressed once into the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.datasets.errors import DataError
from trainwright.datasets.index_cache import IndexCache
from trainwright.datasets.prepare.inputs import Compression
from trainwright.datasets.prepare.reading import decompressed
from trainwright.datasets.sft.rows import BrokenRow, Row, Rows

if TYPE_CHECKING:
    import numpy as np

_BLOCK_BYTES = 1 << 22
_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
"""White space as JSON knows it. A line of NUL bytes, as a crash leaves one, is no blank line."""
_MAGIC: tuple[tuple[bytes, Compression], ...] = ((b"\x1f\x8b", "gz"), (b"\x28\xb5\x2f\xfd", "zst"))
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_CLOCK_NS = 20_000_000
"""Coarser than the clock that stamps files, which counts in steps of up to 10 ms."""


class JsonlRows:
    """The rows of one file.

    The index is mapped into memory. A line is read with one call at its place, not mapped: memory does not grow with
    what has been read, and a file that is cut short meanwhile is an error and not a crash.
    """

    def __init__(self, path: Path, cache: IndexCache) -> None:
        """Raises DataError for a file that cannot be read, or that is no text in UTF-8."""
        self._name = str(path)
        self._file = _plain_file(path, cache)
        self._starts, self.fingerprint = _line_index(self._file, self._name, cache)
        self._stream: Any = None

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, number: int) -> Row:
        return parse_object(self._line(number).rstrip(_SPACE))

    def where(self, number: int) -> str:
        """Counts the line feeds before the row: for messages only."""
        left, line = int(self._starts[number]), 1
        with self._file.open("rb") as stream:
            while left > 0 and (block := stream.read(min(left, _BLOCK_BYTES))):
                line += block.count(b"\n")
                left -= len(block)
        return f"{self._name} line {line}"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_stream": None}  # a loader process opens the file for itself

    def _line(self, number: int) -> bytes:
        if not 0 <= number < len(self):
            raise IndexError(number)
        if self._stream is None:
            self._stream = self._file.open("rb", buffering=0)
        begin, end = int(self._starts[number]), int(self._starts[number + 1])
        line = os.pread(self._stream.fileno(), end - begin, begin)
        while len(line) < end - begin:  # one call gives at most 2 GB
            part = os.pread(self._stream.fileno(), end - begin - len(line), begin + len(line))
            if not part:
                raise DataError(f"{self._name} has become shorter while it was read")
            line += part
        return line


class ListRows:
    """The objects of a JSON list, which has to be read whole."""

    def __init__(self, path: Path, plain: Path) -> None:
        self._name = str(path)
        try:
            data = plain.read_bytes()
            self._objects = json.loads(data.decode("utf-8-sig"))
        except (OSError, ValueError, RecursionError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"{path}: no JSON that can be read: {reason}") from None
        self.fingerprint = hashlib.sha256(data).hexdigest()

    def __len__(self) -> int:
        return len(self._objects)

    def __getitem__(self, number: int) -> Row:
        return _object(self._objects[number])

    def where(self, number: int) -> str:
        return f"{self._name} item {number + 1}"


def json_rows(path: Path, cache: IndexCache) -> Rows:
    """The rows of a JSON file: an object on each line, or one list of objects.

    Raises:
        DataError: a file that cannot be read.
    """
    plain = _plain_file(path, cache)
    try:
        with plain.open("rb") as stream:
            begin = stream.read(_BLOCK_BYTES).removeprefix(_BOM).lstrip(_SPACE)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error
    one_list = begin.startswith(b"[") and ".jsonl" not in path.suffixes
    return ListRows(path, plain) if one_list else JsonlRows(path, cache)


def parse_object(line: bytes) -> Row:
    """The JSON object of a line. Raises BrokenRow."""
    try:
        row = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BrokenRow(f"not UTF-8: byte {error.start + 1} is {line[error.start]:#04x}") from None
    except json.JSONDecodeError as error:
        raise BrokenRow(f"no JSON object: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise BrokenRow("no JSON object that can be read: it is nested too deeply") from None
    except ValueError as error:  # a number of thousands of digits
        raise BrokenRow(f"no JSON object that can be read: {error}") from None
    return _object(row)


def _object(value: Any) -> Row:
    if not isinstance(value, dict):
        raise BrokenRow(f"a JSON {_KINDS.get(type(value), 'value')} and no object")
    return value


_KINDS = {list: "list", str: "string", int: "number", float: "number", bool: "truth value", type(None): "null"}


def file_state(path: Path) -> dict[str, object]:
    """What tells a file from every other and from itself after a change, without reading it.

    The time of the last change of status is set by the system alone: it also tells a file whose content was replaced
    and whose modification time was then put back.

    Raises:
        DataError: there is no such file, or it cannot be read.
    """
    try:
        found = path.stat()
        if 0 <= time.time_ns() - found.st_ctime_ns < _CLOCK_NS:
            # The clock of a file system ticks. A change within this tick would leave no trace, so it is waited for.
            time.sleep(_CLOCK_NS / 1e9)
            found = path.stat()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error
    return {
        "path": str(path.absolute()),
        "size": found.st_size,
        "modified_ns": found.st_mtime_ns,
        "changed_ns": found.st_ctime_ns,
        "inode": found.st_ino,
    }


def _plain_file(path: Path, cache: IndexCache) -> Path:
    """The file itself, or what it decompresses to, in the cache."""
    state = file_state(path)
    try:
        with path.open("rb") as raw:
            first = raw.read(4)
            kind = next((kind for magic, kind in _MAGIC if first.startswith(magic)), None)
            if kind is None:
                return path
            key = hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:32]
            plain = cache.folder / f"{key}.jsonl"
            if not plain.exists():
                raw.seek(0)
                _publish(plain, decompressed(str(path), raw, kind))
            return plain
    except OSError as error:
        raise DataError(f"{error.filename or path}: {error.strerror or error}") from error


def _publish(path: Path, blocks: Iterator[bytes]) -> None:
    """Write a file that appears whole or not at all; two processes that do it write the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    try:
        with scratch.open("wb") as stream:
            for block in blocks:
                stream.write(block)
        scratch.rename(path)
    finally:
        scratch.unlink(missing_ok=True)


def content_sha256(path: Path, cache: IndexCache) -> str:
    """SHA-256 of a file, computed once for each state that it is in."""
    import numpy as np

    def build() -> tuple[np.ndarray]:
        with path.open("rb") as stream:
            return (np.frombuffer(hashlib.file_digest(stream, "sha256").digest(), dtype=np.uint8),)

    (found,) = cache.arrays({"index": "content, 1", **file_state(path)}, ("sha256",), build)
    return bytes(found).hex()


def _line_index(file: Path, name: str, cache: IndexCache) -> tuple[np.ndarray, str]:
    """Where each row begins and the last one ends (int64, shape [rows + 1]), and the SHA-256 of the content."""
    import numpy as np

    state = file_state(file)

    def build() -> tuple[np.ndarray, np.ndarray]:
        found = _scan(file, name)
        if file_state(file) != state:
            raise DataError(f"{name} was changed while it was read")
        return found

    key = {"index": "lines of JSONL, 1", **state}
    starts, content = cache.arrays(key, ("starts", "sha256"), build)
    return np.asarray(starts), bytes(content).hex()


def _scan(file: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Read the file once, block by block; the places go to a file of their own, so that memory stays flat."""
    import numpy as np

    content = hashlib.sha256()
    try:
        with file.open("rb") as stream, tempfile.TemporaryFile() as places:
            for starts in _row_starts(stream, name, content):
                places.write(starts.astype(np.int64).tobytes())
            places.write(np.int64(stream.tell()).tobytes())
            places.flush()
            found = np.memmap(places, dtype=np.int64, mode="r")
            return found, np.frombuffer(content.digest(), dtype=np.uint8)
    except OSError as error:
        raise DataError(f"{name}: {error.strerror or error}") from error


def _row_starts(stream: Any, name: str, content: Any) -> Iterator[np.ndarray]:
    """Where lines that are not blank begin, block by block."""
    import numpy as np

    at = line = 0
    speaks = False  # whether the unfinished line holds more than white space
    while block := stream.read(_BLOCK_BYTES):
        content.update(block)
        if at == 0:
            if block.startswith(_UTF16):
                raise DataError(f"{name}: UTF-16 text; convert it to UTF-8")
            if block.startswith(_BOM):
                at = line = len(_BOM)
                block = block[at:]
        ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n"))
        first_end = int(ends[0]) if len(ends) else len(block)
        speaks = speaks or bool(block[:first_end].strip(_SPACE))
        if len(ends):
            if speaks:
                yield np.array([line], dtype=np.int64)
            yield at + _not_blank(block, ends[:-1] + 1, ends[1:])
            last = int(ends[-1]) + 1
            line, speaks = at + last, bool(block[last:].strip(_SPACE))
        at += len(block)
    if speaks:
        yield np.array([line], dtype=np.int64)


def _not_blank(block: bytes, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Those of `begins` whose line holds more than white space. Almost every line shows it with its first byte."""
    import numpy as np

    firsts = np.frombuffer(block, dtype=np.uint8)[begins]
    kept = ~np.isin(firsts, np.frombuffer(_SPACE, dtype=np.uint8))
    for number in np.flatnonzero(~kept & (begins < ends)):
        kept[number] = bool(block[begins[number] : ends[number]].strip(_SPACE))
    return begins[kept]
