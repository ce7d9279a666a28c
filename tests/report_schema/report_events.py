"""Event files for tests, written by TensorBoard's own writer, and records written by hand."""

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

import google_crc32c
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter


def masked_crc(data: bytes) -> bytes:
    """The masked CRC-32C of TFRecord files, little-endian."""
    crc = google_crc32c.value(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17) & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF)


def record(payload: bytes) -> bytes:
    """One framed record."""
    length = struct.pack("<Q", len(payload))
    return length + masked_crc(length) + payload + masked_crc(payload)


def scalar_event(tag: str, step: int, value: float, wall_time: float = 1.0) -> bytes:
    """The payload of one old-style scalar event."""
    summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
    return Event(wall_time=wall_time, step=step, summary=summary).SerializeToString()


def write_events(directory: Path, points: Iterable[tuple[str, int, float]], name: str = "1780000000") -> Path:
    """Write scalars with TensorBoard's writer; the file is called ``events.out.tfevents.<name>``."""
    directory.mkdir(parents=True, exist_ok=True)
    before = set(directory.iterdir())
    writer = EventFileWriter(str(directory))
    for tag, step, value in points:
        summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
        writer.add_event(Event(wall_time=float(step), step=step, summary=summary))
    writer.close()
    (written,) = set(directory.iterdir()) - before
    return written.rename(directory / f"events.out.tfevents.{name}.host.1.0")


def metric_points(
    series: Mapping[str, Mapping[int, float]],
) -> list[tuple[str, int, float]]:
    """Points in step order from tag -> step -> value."""
    steps = sorted({step for values in series.values() for step in values})
    return [(tag, step, values[step]) for step in steps for tag, values in series.items() if step in values]
