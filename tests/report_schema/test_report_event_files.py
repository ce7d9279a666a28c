"""Reading event files: every kind of damage, every kind of scalar."""

import math
import struct
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tests.report_schema.report_events import record, scalar_event, tensor_point, text_point, write_events

from trainwright.report_schema.errors import ReportError
from trainwright.report_schema.parsers import records as records_module
from trainwright.report_schema.parsers.records import Damage, RecordReader
from trainwright.report_schema.parsers.scalars import read_points
from trainwright.report_schema.parsers.segments import event_files, read_segments

PAYLOADS = [scalar_event("lm loss" if i % 3 else "a longer tag", 10**i % 1009, i / 7) for i in range(9)]
RECORDS = [record(payload) for payload in PAYLOADS]
POSITIONS = range(len(RECORDS))


def read(path: Path) -> tuple[list[bytes], list[Damage]]:
    reader = RecordReader(path)
    return list(reader), reader.damage


def points(path: Path) -> list[tuple[str, int, float | str]]:
    return list(read_points(RecordReader(path), lambda tag: tag))


def flip(data: bytes, index: int) -> bytes:
    return data[:index] + bytes([data[index] ^ 0x40]) + data[index + 1 :]


def offset_of(position: int) -> int:
    return sum(map(len, RECORDS[:position]))


# What happens to a record, and the reason that is given for passing over it.
SPOILT: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "length": (lambda one: flip(one, 0), "header with a wrong checksum"),
    "high byte of the length": (lambda one: flip(one, 7), "header with a wrong checksum"),
    "checksum of the length": (lambda one: flip(one, 9), "header with a wrong checksum"),
    "payload": (lambda one: flip(one, 20), "record with a wrong checksum"),
    "checksum of the payload": (lambda one: flip(one, len(one) - 2), "record with a wrong checksum"),
    "bytes missing": (lambda one: one[:17] + one[20:], "record with a wrong checksum"),
    "header alone": (lambda one: one[:12], "record with a wrong checksum"),
    "garbage instead": (lambda one: b"\x01garbage" * 9, "header with a wrong checksum"),
    "zeros instead": (lambda one: bytes(len(one)), "zero-filled"),
}


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("kind", SPOILT)
def test_one_spoilt_record_costs_that_record(tmp_path: Path, kind: str, position: int) -> None:
    """The other records are read; the damage says where, how much and why."""
    spoil, reason = SPOILT[kind]
    spoilt = spoil(RECORDS[position])
    path = tmp_path / "events"
    path.write_bytes(b"".join([*RECORDS[:position], spoilt, *RECORDS[position + 1 :]]))
    payloads, damage = read(path)
    assert payloads == PAYLOADS[:position] + PAYLOADS[position + 1 :]
    if position == len(RECORDS) - 1 and kind in ("bytes missing", "header alone"):
        reason = "truncated record"
    assert damage == [Damage(offset_of(position), len(spoilt), reason)]


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("kept", [1, 11, 12, 13, 30, -1])
def test_truncated_file_keeps_what_stands_before(tmp_path: Path, position: int, kept: int) -> None:
    """Cut inside a record, the file gives the records before it and names the rest."""
    path = tmp_path / "events"
    tail = RECORDS[position][:kept]
    path.write_bytes(b"".join(RECORDS[:position]) + tail)
    payloads, damage = read(path)
    assert payloads == PAYLOADS[:position]
    assert damage == [Damage(offset_of(position), len(tail), "truncated record")]


@pytest.mark.parametrize("position", POSITIONS)
def test_zero_filled_tail_is_named(tmp_path: Path, position: int) -> None:
    """Zeros behind the last record, as a crash may leave them, cost nothing else."""
    path = tmp_path / "events"
    path.write_bytes(b"".join(RECORDS[:position]) + bytes(5000))
    assert read(path) == (PAYLOADS[:position], [Damage(offset_of(position), 5000, "zero-filled")])


def test_empty_file_is_no_damage(tmp_path: Path) -> None:
    """A file that was opened and never written to has nothing to lose."""
    (tmp_path / "events").write_bytes(b"")
    assert read(tmp_path / "events") == ([], [])


def test_garbage_file_is_all_damage(tmp_path: Path) -> None:
    """A file of another kind gives nothing and says so."""
    (tmp_path / "events").write_bytes(b"\x7fELF" * 1000)
    assert read(tmp_path / "events") == ([], [Damage(0, 4000, "header with a wrong checksum")])


def test_missing_file_is_one_line(tmp_path: Path) -> None:
    """The reader's error is ours."""
    with pytest.raises(ReportError, match="nowhere: No such file"):
        read(tmp_path / "nowhere")


@settings(max_examples=300, deadline=None)
@given(data=st.data(), chunk=st.sampled_from([1, 16, 100, 1 << 20]))
def test_nothing_false_is_read_and_every_byte_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, chunk: int
) -> None:
    """Whatever is overwritten, inserted or cut, what is read stood in the file, and the rest is reported."""
    original = b"".join(RECORDS)
    start = data.draw(st.integers(0, len(original)))
    end = data.draw(st.integers(start, min(len(original), start + 200)))
    spoilt = original[:start] + data.draw(st.binary(max_size=200)) + original[end:]
    path = tmp_path_factory.getbasetemp() / "spoilt-events"
    path.write_bytes(spoilt)
    with patch.object(records_module, "_CHUNK_SIZE", chunk):
        payloads, damage = read(path)
    remaining = iter(PAYLOADS)
    assert all(payload in remaining for payload in payloads)
    untouched = sum(offset_of(k + 1) <= start or offset_of(k) >= end for k in POSITIONS)
    assert len(payloads) >= untouched
    assert sum(len(record(payload)) for payload in payloads) + sum(one.size_bytes for one in damage) == len(spoilt)


def test_record_of_any_size_is_read_across_chunks(tmp_path: Path) -> None:
    """Records larger than the reader's chunk, among small ones."""
    payloads = [b"a" * 10, b"b" * 3_000_000, b"c" * 10, b"", b"d" * 1_100_000]
    (tmp_path / "events").write_bytes(b"".join(map(record, payloads)))
    assert read(tmp_path / "events") == (payloads, [])


@settings(max_examples=200, deadline=None)
@given(
    logged=st.lists(
        st.tuples(
            st.sampled_from(["lm loss", "a", "ü/ß", "lm loss vs samples"]),
            st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300),
            st.floats(width=32, allow_nan=False),
            st.floats(allow_nan=False),
        ),
        max_size=20,
    )
)
def test_scalars_are_read_as_written(tmp_path_factory: pytest.TempPathFactory, logged: list) -> None:
    """Any tag, step (64 bits, negative too) and value, as TensorBoard's protocol buffers encode them."""
    path = tmp_path_factory.getbasetemp() / "scalar-events"
    path.write_bytes(b"".join(record(scalar_event(*one)) for one in logged))
    assert points(path) == [(tag, step, value) for tag, step, value, _ in logged]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0])
def test_special_values_pass_through(tmp_path: Path, value: float) -> None:
    """What to make of them is not the reader's business."""
    (tmp_path / "events").write_bytes(record(scalar_event("x", 1, 1.0)) + record(scalar_event("x", 2, value)))
    ((_, _, first), (_, _, second)) = points(tmp_path / "events")
    assert first == 1.0 and struct.pack("<d", second) == struct.pack("<d", value)


def test_new_style_scalars_and_texts(tmp_path: Path) -> None:
    """Tensor scalars are numbers, text summaries strings, in the order of the file."""
    logged = [tensor_point("lm loss", 1, 2.5), ("lm loss", 2, 0.5), text_point("seq_length", 0, "4096")]
    path = write_events(tmp_path, [*logged, tensor_point("lm loss", 3, 0.0)])
    assert points(path) == [
        ("lm loss", 1, 2.5),
        ("lm loss", 2, 0.5),
        ("seq_length/text_summary", 0, "4096"),
        ("lm loss", 3, 0.0),
    ]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64", "uint8"])
@pytest.mark.parametrize("packed", [False, True])
def test_tensor_scalars_of_any_type(tmp_path: Path, dtype: str, packed: bool) -> None:
    """One number, whether it is packed into bytes or stands in its own field."""
    from tensorboard.util import tensor_util

    array = numpy.array(3, dtype=dtype)
    tensor = tensor_util.make_tensor_proto(array)
    if packed:
        for field in ("float_val", "int_val", "double_val", "int64_val", "half_val"):
            tensor.ClearField(field)
        tensor.tensor_content = array.tobytes()
    event = Event(step=7, summary=Summary(value=[Summary.Value(tag="x", tensor=tensor)]))
    (tmp_path / "events").write_bytes(record(event.SerializeToString()))
    assert points(tmp_path / "events") == [("x", 7, 3.0)]


def test_tensors_that_are_no_scalars_are_left_alone(tmp_path: Path) -> None:
    """Histograms, vectors and images are nobody's metric."""
    from tensorboard.util import tensor_util

    vector = Summary.Value(tag="x", tensor=tensor_util.make_tensor_proto(numpy.zeros(3)))
    image = Summary.Value(tag="x", image=Summary.Image(height=1, width=1, encoded_image_string=b"\x15abcd"))
    events = [Event(step=1, summary=Summary(value=[one])) for one in (vector, image)]
    (tmp_path / "events").write_bytes(b"".join(record(event.SerializeToString()) for event in events))
    assert points(tmp_path / "events") == []


def test_several_values_in_one_event(tmp_path: Path) -> None:
    """All of them are points; the same layout without its step is another step."""
    values = [Summary.Value(tag=tag, simple_value=number) for tag, number in (("a", 1), ("b", 2))]
    events = [Event(wall_time=1, step=step, summary=Summary(value=values)) for step in (0, 5)]
    (tmp_path / "events").write_bytes(b"".join(record(event.SerializeToString()) for event in events))
    assert points(tmp_path / "events") == [("a", 0, 1), ("b", 0, 2), ("a", 5, 1), ("b", 5, 2)]


def test_sound_record_that_is_no_event_is_reported(tmp_path: Path) -> None:
    """Right checksums do not make an event."""
    first = record(scalar_event("a", 1, 1))
    (tmp_path / "events").write_bytes(first + record(b"\xff" * 30) + record(scalar_event("a", 2, 2)))
    reader = RecordReader(tmp_path / "events")
    assert list(read_points(reader, lambda tag: tag)) == [("a", 1, 1), ("a", 2, 2)]
    (damage,) = reader.damage
    assert (damage.offset, damage.size_bytes) == (len(first), 46)
    assert damage.reason.startswith("record that is no event")


def test_files_are_ordered_by_the_time_in_their_names(tmp_path: Path) -> None:
    """Numbers compare as numbers; files of other names are no event files."""
    names = ["events.out.tfevents.1000.h.2.0", "events.out.tfevents.999.h.10.0", "events.out.tfevents.1000.h.10.0"]
    for name in [*names, "notes.txt"]:
        (tmp_path / name).touch()
    assert [path.name for path in event_files(tmp_path)] == [names[1], names[0], names[2]]


def test_step_that_goes_back_starts_a_segment(tmp_path: Path) -> None:
    """A process that restarts its training in place goes on in the same file."""
    logged = [("a", i, i / 2) for i in (1, 2, 3)] + [("b", 3, 0.0)] + [("a", i, -i / 2) for i in (2, 3)]
    segments, damage = read_segments([write_events(tmp_path, logged)], lambda tag: tag)
    assert [(one.first_step, one.last_step, sorted(one.series)) for one in segments] == [
        (1, 3, ["a", "b"]),
        (2, 3, ["a"]),
    ]
    assert list(segments[1].series["a"].values) == [-1.0, -1.5] and damage == {}


def test_repeated_step_counts_once(tmp_path: Path) -> None:
    """The later value of the same metric and step wins, and is counted."""
    (segment,), _ = read_segments([write_events(tmp_path, [("a", 1, 1), ("a", 1, 2), ("a", 2, 3)])], lambda tag: tag)
    assert (list(segment.series["a"].steps), list(segment.series["a"].values)) == ([1, 2], [2, 3])
    assert segment.repeated_points == 1


def test_purge_mark_starts_a_segment(tmp_path: Path) -> None:
    """``SummaryWriter(purge_step=...)`` says that a training starts again."""
    start = Event(step=3, session_log=SessionLog(status=SessionLog.START)).SerializeToString()
    parts = [scalar_event("a", 2, 1), start, scalar_event("a", 3, 2)]
    (tmp_path / "events").write_bytes(b"".join(map(record, parts)))
    segments, _ = read_segments([tmp_path / "events"], lambda tag: tag)
    assert [one.first_step for one in segments] == [2, 3]
