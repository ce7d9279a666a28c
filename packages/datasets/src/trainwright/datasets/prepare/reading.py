"""From files to chunks: whole documents or whole lines, a bounded number of bytes at a time."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal

from trainwright.datasets.errors import DataError
from trainwright.datasets.prepare.inputs import Compression, InputFile

BLOCK_BYTES = 1 << 18
CHUNK_BYTES = 1 << 20
"""What one worker is handed at a time, give or take a line or a small file."""
DOCUMENT_BYTES = 2**31 - 2
"""The longest document: the format counts the tokens of a sequence in 32 bits, its end of document among them."""

_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")

Kind = Literal["document", "lines", "jsonl"]


@dataclass(frozen=True)
class Piece:
    """A stretch of one file, ending where a document ends."""

    path: str
    line: int
    """The line of the file that it begins at, from 1."""
    data: bytes
    kind: Kind
    """One document; a document on each line; a JSON object on each line."""


@dataclass(frozen=True)
class Chunk:
    """What one worker encodes at a time."""

    pieces: tuple[Piece, ...]
    consumed: int
    """Bytes of the input files read when the chunk was complete (compressed bytes of compressed files)."""


def read_chunks(files: Iterable[InputFile], *, one_document_per_line: bool) -> Iterator[Chunk]:
    """All documents of all files, in order.

    Raises:
        DataError: a file that cannot be read, is cut off or damaged, or holds a document that is too long.
    """
    pieces: list[Piece] = []
    size = consumed = 0
    for file in files:
        for piece, position in _pieces(file, one_document_per_line):
            pieces.append(piece)
            size += len(piece.data)
            if size >= CHUNK_BYTES:
                yield Chunk(tuple(pieces), consumed + position)
                pieces, size = [], 0
        consumed += file.size
    if pieces:
        yield Chunk(tuple(pieces), consumed)


def _pieces(file: InputFile, one_document_per_line: bool) -> Iterator[tuple[Piece, int]]:
    """The pieces of a file, each with the position in the file after it."""
    name = str(file.path)
    try:
        with file.path.open("rb") as raw:
            blocks = _without_bom(name, decompressed(name, raw, file.compression))
            if file.format == "text" and not one_document_per_line:
                yield Piece(name, 1, _whole(name, blocks), "document"), _position(raw)
                return
            kind: Kind = "jsonl" if file.format == "jsonl" else "lines"
            for line, data in _cut_at_lines(name, blocks):
                yield Piece(name, line, data, kind), _position(raw)
    except OSError as error:
        raise DataError(f"{name}: {error.strerror or error}") from error


def _position(raw: BinaryIO) -> int:
    return raw.tell() if raw.seekable() else 0  # a pipe has no place, and no size to compare it with


def _whole(name: str, blocks: Iterator[bytes]) -> bytes:
    parts: list[bytes] = []
    size = 0
    for block in blocks:
        size += len(block)
        if size > DOCUMENT_BYTES:
            raise DataError(
                f"{name}: one document of more than {DOCUMENT_BYTES} bytes; --document line makes each line one"
            )
        parts.append(block)
    return b"".join(parts)


def _cut_at_lines(name: str, blocks: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Stretches of whole lines and the number of the first; only a line feed ends a line."""
    parts: list[bytes] = []
    line, size = 1, 0
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if end and size + end >= CHUNK_BYTES:
            data = b"".join((*parts, block[:end]))
            yield line, data
            line += data.count(b"\n")
            parts, size = [], 0
            block = block[end:]
        parts.append(block)
        size += len(block)
        if size > DOCUMENT_BYTES:
            raise DataError(f"{name}:{line}: a line of more than {DOCUMENT_BYTES} bytes")
    if size:
        yield line, b"".join(parts)


def _without_bom(name: str, blocks: Iterator[bytes]) -> Iterator[bytes]:
    first = b""
    while len(first) < len(_BOM) and (block := next(blocks, b"")):
        first += block
    if first.startswith(_UTF16_BOMS):
        raise DataError(f"{name}: UTF-16 text; convert it to UTF-8")
    yield first.removeprefix(_BOM)
    yield from blocks


def decompressed(name: str, raw: BinaryIO, compression: Compression | None) -> Iterator[bytes]:
    """The bytes of an open file, block by block. Raises DataError where a compressed stream is cut off or damaged."""
    return _READERS[compression](name, raw)


def _plain(_name: str, raw: BinaryIO) -> Iterator[bytes]:
    while block := raw.read(BLOCK_BYTES):
        yield block


def _gzip(name: str, raw: BinaryIO) -> Iterator[bytes]:
    try:
        with gzip.GzipFile(fileobj=raw) as stream:
            yield from _plain(name, stream)  # type: ignore[arg-type]
    except EOFError:
        raise DataError(f"{name} is cut off: the gzip stream does not end") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{name} is damaged: {error}") from error


def _zstd(name: str, raw: BinaryIO) -> Iterator[bytes]:
    import zstandard

    # Not `stream_reader`: it takes the end of a file in the middle of a frame for the end of the data.
    decompressor, frame = zstandard.ZstdDecompressor(), None
    pending = b""
    try:
        while pending or (pending := raw.read(BLOCK_BYTES)):
            if frame is None:
                frame = decompressor.decompressobj()
            if block := frame.decompress(pending):
                yield block
            pending = frame.unused_data
            if frame.eof:
                frame = None
    except zstandard.ZstdError as error:
        raise DataError(f"{name} is damaged: {error}") from error
    if frame is not None:
        raise DataError(f"{name} is cut off: the zstd stream does not end")


_READERS = {None: _plain, "gz": _gzip, "zst": _zstd}
