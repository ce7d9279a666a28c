"""The TensorBoard event file of one session."""

from __future__ import annotations

import errno
import itertools
import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

_numbers = itertools.count()


class EventFile:
    """Appends scalars to one event file; each `write` is one event, and on its way to the disk when it returns.

    `tensorboard`'s messages are used, its writer is not: that one costs four times the import, computes the checksum
    in Python, and keeps up to two minutes of events in memory, which a killed job loses.
    """

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.path = path
        self._file = file

    @classmethod
    def create(cls, directory: Path, *, first_step: int) -> EventFile:
        """Start a new event file in `directory`, which is made when missing.

        TensorBoard no longer shows what earlier files of the directory hold from `first_step` on: this session trains
        those updates again.

        Raises:
            OSError: it cannot be written.
        """
        directory.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        path = directory / name
        events = cls(path.open("xb", buffering=0), path)
        events._start(first_step)
        return events

    def _start(self, first_step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        self._append(Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString())
        start = SessionLog(status=SessionLog.START)
        self._append(Event(wall_time=time.time(), step=first_step, session_log=start).SerializeToString())

    def write(self, step: int, scalars: Mapping[str, float], /) -> None:
        """Append one point of each tag, in 32-bit floats as the format has them; NaN and infinities as they are.

        Raises:
            OSError: the disk refuses it.
        """
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        self._append(Event(wall_time=time.time(), step=step, summary=Summary(value=values)).SerializeToString())

    def close(self, *, exit_code: int = 0) -> None:
        """Close the file, however the session ended. Closing twice does nothing."""
        self._file.close()

    def _append(self, event: bytes) -> None:
        # A TFRecord (tensorflow.org/tutorials/load_data/tfrecord): length and content, each followed by its checksum.
        length = struct.pack("<Q", len(event))
        record = length + _masked_crc(length) + event + _masked_crc(event)
        written = self._file.write(record)
        if written != len(record):
            raise OSError(errno.ENOSPC, f"only {written} of {len(record)} bytes fitted", str(self.path))


def _masked_crc(content: bytes) -> bytes:
    import google_crc32c

    crc = google_crc32c.value(content)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)
