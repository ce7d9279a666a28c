"""Reading the scalars (and texts) of one event file as a stream."""

import struct
from collections.abc import Callable, Iterator

from trainwright.report_schema.parsers.events import decode_event
from trainwright.report_schema.parsers.records import RecordReader

SESSION_START = ""
"""Stands for a name where the writer said that everything from this step on is void (``purge_step``)."""

type Point = tuple[str, int, float | str]
"""Name, step and value: a number from a scalar, a string from a text."""

_FLOAT = struct.Struct("<f")
_PROBE = 1.5
_WALL_TIME_KEY, _STEP_KEY, _SIMPLE_VALUE_KEY = 0x09, 0x10, 0x15
_UNKNOWN = object()


def read_points(records: RecordReader, name_of: Callable[[str], str | None]) -> Iterator[Point]:
    """Yield the points of an event file, in file order.

    Args:
        records: the file; its ``damage`` is complete once the iteration ends.
        name_of: what to call a tag's points; ``None`` to leave the tag out. The same tag must get the same answer.

    Raises:
        ReportError: the file cannot be read.
    """
    # Events of one tag differ only in their time, their step and the last four bytes, the value. What lies between,
    # the layout, is decoded in full the first time it is seen, and tells the name from then on.
    names: dict[bytes, object] = {}
    unpack_float = _FLOAT.unpack_from
    step, step_end, last_key = 0, 0, b""
    for payload in records:
        # The tags of one step follow each other: its number is decoded once.
        key = payload[:1] + payload[9:14]
        if key != last_key:
            step, step_end = _step(payload)
            last_key = key if step_end <= 14 else b""
        name = names.get(payload[step_end:-4], _UNKNOWN) if step_end else _UNKNOWN
        if name is None:
            continue
        if isinstance(name, str):
            yield name, step, unpack_float(payload, len(payload) - 4)[0]
            continue
        try:
            event = decode_event(payload)
        except ValueError as error:
            records.reject(payload, f"record that is no event ({error})")
            continue
        if event.session_start:
            yield SESSION_START, event.step, 0.0
        for tag, value in event.values:
            wanted = name_of(tag)
            if wanted is not None:
                yield wanted, event.step, value
            if step_end and _value_is_last(payload, tag):
                names[payload[step_end:-4]] = wanted


def _step(payload: bytes) -> tuple[int, int]:
    """An event's step and where it ends, if it begins as writers write it (time, step); else an end of 0."""
    if len(payload) < 20 or payload[0] != _WALL_TIME_KEY:
        return 0, 0
    if payload[9] != _STEP_KEY:
        return 0, 9  # Step 0 is not written.
    step = shift = 0
    for end in range(10, 15):
        byte = payload[end]
        step |= (byte & 0x7F) << shift
        if byte < 0x80:
            return step, end + 1
        shift += 7
    return 0, 0


def _value_is_last(payload: bytes, tag: str) -> bool:
    """Whether the event holds one scalar of this tag, in its last four bytes: changing them changes it alone."""
    if payload[-5] != _SIMPLE_VALUE_KEY:
        return False
    original = decode_event(payload)
    probe = decode_event(payload[:-4] + _FLOAT.pack(_PROBE))
    return probe == original._replace(values=[(tag, _PROBE)])
