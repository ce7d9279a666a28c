"""Decoding one TensorBoard event: the few fields of its protocol buffers that a report needs.

Field numbers are those of ``tensorboard/compat/proto``: ``Event`` (wall_time 1, step 2, summary 5, session_log 7),
``Summary`` (value 1), ``Summary.Value`` (tag 1, simple_value 2, tensor 8), ``SessionLog`` (status 1) and
``TensorProto`` (dtype 1, tensor_shape 2, tensor_content 4, float_val 5, double_val 6, int_val 7, string_val 8,
int64_val 10, half_val 13).
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SESSION_START = 1

# TensorProto dtypes that hold a number, by DataType value: how one element is packed in tensor_content.
_NUMBER_FORMATS = {1: "<f", 2: "<d", 3: "<i", 4: "<B", 5: "<h", 6: "<b", 9: "<q", 17: "<H", 19: "<e", 22: "<I"}
_BFLOAT16 = 14


class Event(NamedTuple):
    """One event: when, at which step, and what it says."""

    wall_time: float
    """Seconds since the epoch, by the writer's clock."""
    step: int
    values: list[tuple[str, float | str]]
    """Tag and value: numbers from scalars of the old and the new style, strings from text summaries."""
    session_start: bool
    """Whether the writer says that what was logged from this step on no longer counts."""


def decode_event(payload: bytes) -> Event:
    """Decode one record.

    Raises:
        ValueError: the payload is not a well-formed protocol buffer.
    """
    wall_time, step, session_start = 0.0, 0, False
    values: list[tuple[str, float | str]] = []
    for number, wire, content in _fields(payload):
        if number == 1 and wire == _FIXED64:
            wall_time = struct.unpack("<d", _as_bytes(content))[0]
        elif number == 2 and isinstance(content, int):
            step = content - (1 << 64) if content >> 63 else content
        elif number == 5 and wire == _BYTES:
            values.extend(_summary_values(_as_bytes(content)))
        elif number == 7 and wire == _BYTES:
            session_start = (1, _VARINT, _SESSION_START) in _fields(_as_bytes(content))
    return Event(wall_time, step, values, session_start)


def _summary_values(summary: bytes) -> Iterator[tuple[str, float | str]]:
    for number, wire, content in _fields(summary):
        if number == 1 and wire == _BYTES:
            tag, value = _tagged_value(_as_bytes(content))
            if tag and value is not None:
                yield tag, value


def _tagged_value(message: bytes) -> tuple[str, float | str | None]:
    tag: str = ""
    value: float | str | None = None
    for number, wire, content in _fields(message):
        if number == 1 and wire == _BYTES:
            tag = _as_bytes(content).decode("utf-8", "replace")
        elif number == 2 and wire == _FIXED32:
            value = struct.unpack("<f", _as_bytes(content))[0]
        elif number == 8 and wire == _BYTES:
            value = _tensor_value(_as_bytes(content))
    return tag, value


def _tensor_value(tensor: bytes) -> float | str | None:
    """The one element of a tensor; ``None`` where it has none, several, or holds neither numbers nor text."""
    dtype: int | bytes = 0
    shape = packed = b""
    elements: list[float | str] = []
    halves: list[float] = []
    for number, wire, content in _fields(tensor):
        if number == 1 and wire == _VARINT:
            dtype = content
        elif number == 2 and wire == _BYTES:
            shape = _as_bytes(content)
        elif number == 4 and wire == _BYTES:
            packed = _as_bytes(content)
        elif number in (5, 6) and wire != _VARINT:
            elements.extend(_numbers("<f" if number == 5 else "<d", _as_bytes(content)))
        elif number in (7, 10):
            elements.extend(_varints(content))
        elif number == 13:
            halves = _varints(content)
        elif number == 8 and wire == _BYTES:
            elements.append(_as_bytes(content).decode("utf-8", "replace"))
    elements.extend(_from_half_bits(int(bits), bfloat=dtype == _BFLOAT16) for bits in halves)
    if isinstance(dtype, int) and dtype in _NUMBER_FORMATS:
        elements.extend(_numbers(_NUMBER_FORMATS[dtype], packed))
        if not elements and not shape:
            return 0.0  # Elements that are all zero need not be written.
    return elements[0] if len(elements) == 1 else None


def _from_half_bits(bits: int, *, bfloat: bool) -> float:
    """A 16-bit float from its bit pattern; a bfloat16 is the upper half of a 32-bit float."""
    raw = struct.pack("<I", (bits & 0xFFFF) << 16) if bfloat else struct.pack("<H", bits & 0xFFFF)
    number: float = struct.unpack("<f" if bfloat else "<e", raw)[0]
    return number


def _numbers(layout: str, packed: bytes) -> list[float]:
    if len(packed) % struct.calcsize(layout):
        raise ValueError("a packed field is cut short")
    return [float(number) for (number,) in struct.iter_unpack(layout, packed)]


def _varints(content: int | bytes) -> list[float]:
    if isinstance(content, int):
        unsigned = [content]
    else:
        unsigned, position = [], 0
        while position < len(content):
            number, position = _varint(content, position)
            unsigned.append(number)
    return [float(number - (1 << 64) if number >> 63 else number) for number in unsigned]


def _as_bytes(content: int | bytes) -> bytes:
    if isinstance(content, int):
        raise ValueError("a number stands where bytes belong")
    return content


def _fields(message: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Number, wire type and raw content of each field of a message."""
    position, size = 0, len(message)
    while position < size:
        key, position = _varint(message, position)
        number, wire = key >> 3, key & 7
        content: int | bytes
        if wire == _VARINT:
            content, position = _varint(message, position)
        else:
            if wire == _BYTES:
                length, position = _varint(message, position)
            elif wire in (_FIXED64, _FIXED32):
                length = 8 if wire == _FIXED64 else 4
            else:
                raise ValueError(f"wire type {wire} is not in use")
            content = message[position : position + length]
            position += length
            if position > size:
                raise ValueError("a field is cut short")
        yield number, wire, content


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """The variable-length integer at ``position``, and the position behind it."""
    value = shift = 0
    while True:
        if position >= len(message) or shift > 63:
            raise ValueError("a number is cut short")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
