"""Event files for tests, written by TensorBoard's own writer, and records written by hand."""

import struct
from collections.abc import Iterable
from pathlib import Path

import google_crc32c
from tensorboard.compat.proto import types_pb2
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.summary.writer.event_file_writer import EventFileWriter

type Point = tuple[str, int, float | Summary.Value]
"""Tag, step and value."""


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


def write_events(directory: Path, points: Iterable[Point], name: str = "1780000000") -> Path:
    """Write scalars with TensorBoard's writer; the file is called ``events.out.tfevents.<name>``."""
    directory.mkdir(parents=True, exist_ok=True)
    before = set(directory.iterdir())
    writer = EventFileWriter(str(directory))
    for tag, step, value in points:
        one = value if isinstance(value, Summary.Value) else Summary.Value(tag=tag, simple_value=value)
        writer.add_event(Event(wall_time=float(step), step=step, summary=Summary(value=[one])))
    writer.close()
    (written,) = set(directory.iterdir()) - before
    return written.rename(directory / f"events.out.tfevents.{name}.host.1.0")


def text_point(name: str, step: int, text: str) -> Point:
    """What ``SummaryWriter.add_text(name, text, step)`` writes."""
    tensor = TensorProto(dtype=types_pb2.DT_STRING, string_val=[text.encode()])
    tensor.tensor_shape.dim.add(size=1)
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    tag = f"{name}/text_summary"
    return tag, step, Summary.Value(tag=tag, tensor=tensor, metadata=metadata)


def tensor_point(tag: str, step: int, value: float) -> Point:
    """A scalar in the new style, as ``tf.summary.scalar`` writes it."""
    tensor = TensorProto(dtype=types_pb2.DT_FLOAT, float_val=[value])
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))
    return tag, step, Summary.Value(tag=tag, tensor=tensor, metadata=metadata)
