"""The framing of TensorBoard event files: checksummed records, one after the other.

A record is an 8-byte little-endian length, the masked CRC-32C of those 8 bytes, the payload, and the masked CRC-32C of
the payload (TensorFlow's TFRecord format). Both checksums are verified. Nothing that fails is passed on, all that was
passed over is reported, and reading goes on where the next sound header stands.
"""

import re
import struct
from collections.abc import Iterator
from io import RawIOBase
from pathlib import Path
from typing import NamedTuple

from google_crc32c import value as crc32c

from trainwright.report_schema.errors import ReportError

_HEADER_SIZE = 12
_FOOTER_SIZE = 4
_CHUNK_SIZE = 1 << 20
_MASK_DELTA = 0xA282EAD8

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")

# Where a header may stand: a length under 64 KiB that is not zero. Larger records are not looked for: events with
# scalars are far smaller, and a search that demands six zero bytes runs at the speed of the regular expression.
_CANDIDATE = re.compile(rb"(?=(?:[^\0].|\0[^\0])\0{6})", re.DOTALL)


class Damage(NamedTuple):
    """Bytes of a file that could not be used."""

    offset: int
    size_bytes: int
    reason: str


class RecordReader:
    """Iterates over the payloads of one event file's sound records, in constant memory.

    ``damage`` fills up with what was passed over. Iterating raises :class:`ReportError` where the file cannot be
    opened or read.
    """

    def __init__(self, path: Path) -> None:
        self.damage: list[Damage] = []
        self._path = path
        self._window: _Window | None = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            with self._path.open("rb", buffering=0) as stream:
                self._window = _Window(stream)
                yield from _sound_payloads(self._window, self.damage)
        except OSError as error:
            raise ReportError(f"{self._path}: {error.strerror or error}") from None

    def reject(self, payload: bytes, reason: str) -> None:
        """Report the record that was just yielded as damage after all."""
        if self._window is not None:
            size = _HEADER_SIZE + len(payload) + _FOOTER_SIZE
            self.damage.append(Damage(self._window.base + self._window.position - size, size, reason))


def _sound_payloads(window: "_Window", damage: list[Damage]) -> Iterator[bytes]:
    # Written out, without a call for each record but the checksum's: this loop is most of what reading a run costs.
    lengths: dict[bytes, int] = {}  # Most records share a few headers, so each header's checksum is verified once.
    unpack_checksum = _CHECKSUM.unpack_from
    while True:
        buffer, position = window.buffer, window.position
        start = position + _HEADER_SIZE
        header = buffer[position:start]
        length = lengths.get(header)
        if length is None:
            if len(header) < _HEADER_SIZE:
                if window.has(_HEADER_SIZE):
                    continue
                break
            length = _stated_length(header)
            if length is None:
                damage.append(window.skip("header with a wrong checksum"))
                continue
            if len(lengths) < 4096:
                lengths[header] = length
        end = start + length
        if end + _FOOTER_SIZE > len(buffer):
            if not window.has(_HEADER_SIZE + length + _FOOTER_SIZE):
                damage.append(window.skip("truncated record"))
            continue
        payload = buffer[start:end]
        checksum = crc32c(payload)
        if ((checksum >> 15 | checksum << 17) + _MASK_DELTA) & 0xFFFFFFFF != unpack_checksum(buffer, end)[0]:
            damage.append(window.skip("record with a wrong checksum"))
            continue
        window.position = end + _FOOTER_SIZE
        yield payload
    if window.has(1):
        damage.append(window.skip("truncated record"))


def _masked_crc32c(data: bytes) -> int:
    checksum: int = crc32c(data)
    return ((checksum >> 15 | checksum << 17) + _MASK_DELTA) & 0xFFFFFFFF


def _stated_length(header: bytes) -> int | None:
    """The payload length that a header states; ``None`` where its checksum is wrong."""
    if _masked_crc32c(header[:8]) != _CHECKSUM.unpack_from(header, 8)[0]:
        return None
    length: int = _LENGTH.unpack_from(header)[0]
    return length


class _Window:
    """A stretch of a file that slides forward: ``buffer`` begins at offset ``base``, reading stands at ``position``."""

    def __init__(self, stream: RawIOBase) -> None:
        self._stream = stream
        self.base = 0
        self.buffer = b""
        self.position = 0

    def has(self, size: int) -> bool:
        """Whether ``size`` bytes follow from ``position`` on; reads them in where they do not stand in the buffer."""
        while len(self.buffer) - self.position < size:
            if not self._read(size):
                return False
        return True

    def skip(self, reason: str) -> Damage:
        """Move to the next sound header behind ``position``, or to the end of the file; say what was passed over."""
        start = self.base + self.position
        only_zeros = True
        searched_from = self.position + 1
        while True:
            found = self._sound_header(searched_from)
            stop = max(searched_from, len(self.buffer) - _HEADER_SIZE + 1) if found is None else found
            only_zeros = only_zeros and not self.buffer[self.position : stop].strip(b"\0")
            self.position = stop
            if found is not None:
                break
            if not self._read(_HEADER_SIZE):
                only_zeros = only_zeros and not self.buffer[self.position :].strip(b"\0")
                self.position = len(self.buffer)
                break
            searched_from = self.position
        size = self.base + self.position - start
        return Damage(start, size, "zero-filled" if only_zeros else reason)

    def _sound_header(self, start: int) -> int | None:
        """Position of the first header at or behind ``start`` whose checksum is right."""
        for candidate in _CANDIDATE.finditer(self.buffer, start):
            header = self.buffer[candidate.start() : candidate.start() + _HEADER_SIZE]
            if len(header) == _HEADER_SIZE and _stated_length(header) is not None:
                return candidate.start()
        return None

    def _read(self, size: int) -> bool:
        """Drop what lies behind ``position`` and read on; whether the file had more to give."""
        more = self._stream.read(max(_CHUNK_SIZE, size - (len(self.buffer) - self.position)))
        if not more:
            return False
        self.base += self.position
        self.buffer = self.buffer[self.position :] + more
        self.position = 0
        return True
