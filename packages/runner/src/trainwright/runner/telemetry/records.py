"""The session's records: what the session log holds of the attempts, and the points that checkpoints restore."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from trainwright.metrics_audit import names
from trainwright.runner.telemetry.window import Attempt, Snapshot, Totals, Window

if TYPE_CHECKING:
    from trainwright.metrics_audit.writer import SessionLog
    from trainwright.runner.devices import Device


class SessionRecords:
    """Sums attempts into windows and writes records; every record carries the session's clock and the memory peaks.

    Writing raises `SessionLogError` where the disk refuses a record.
    """

    def __init__(
        self,
        log: SessionLog,
        start: Totals,
        device: Device,
        *,
        tokens_per_update: int,
        clock_start: float,
        qk_clip_threshold: float | None = None,
    ) -> None:
        self._log = log
        self._qk_clip_threshold = qk_clip_threshold
        self._device = device
        self._tokens_per_update = tokens_per_update
        self._clock_start = clock_start
        self._start_tokens = start.tokens
        # The start plus the windows that are written.
        self._logged = replace(start)
        self._peaks = {"allocated_bytes": 0, "reserved_bytes": 0}
        self.window = Window()
        self.profiling_seconds = 0.0

    @property
    def totals(self) -> Totals:
        """The start plus every attempt of this session."""
        logged, window = self._logged, self.window
        return Totals(
            logged.step + window.updates, logged.tokens + window.tokens, logged.skipped_updates + window.skipped_updates
        )

    def add(self, attempt: Attempt) -> dict[str, int]:
        """Count an attempt; returns the memory peaks, in bytes, since the one before.

        Raises:
            ValueError: the attempt contradicts itself or the session's batch size.
        """
        if attempt.tokens != self._tokens_per_update:
            raise ValueError(
                f"an attempted update has {attempt.tokens} tokens; in this session it is {self._tokens_per_update}"
            )
        self.window.add(attempt)
        return self._sample_memory()

    def close_window(self) -> Window | None:
        """Write the attempts since the last window as one, and return it; null where none of them succeeded."""
        window = self.window
        if not window.updates:
            return None
        total = self.totals
        self.write(names.TRAIN, step=total.step, **window.fields(self._qk_clip_threshold), total=asdict(total))
        self._logged, self.window = total, Window()
        return window

    def snapshot(self) -> Snapshot:
        """This point of the run. A window with a success is closed first, so that only skips are pending."""
        self.close_window()
        return Snapshot(replace(self._logged), self.window.pending)

    def write(self, event: str, *, step: int, **fields: Any) -> None:
        """Append one record."""
        self._sample_memory()
        peaks, self._peaks = self._peaks, {"allocated_bytes": 0, "reserved_bytes": 0}
        self._log.write(event, step=step, session=self._clock(), memory=peaks, **fields)

    def _clock(self) -> dict[str, float]:
        elapsed = max(0.0, time.monotonic() - self._clock_start)
        tokens = self.totals.tokens - self._start_tokens
        return {
            "elapsed_seconds": elapsed,
            "tokens": tokens,
            "tokens_per_second": tokens / elapsed if elapsed > 0 else 0.0,
            "profiling_seconds": self.profiling_seconds,
        }

    def _sample_memory(self) -> dict[str, int]:
        # Reading resets the device's peaks, and each update needs its own: the record's are the highest of them.
        latest = self._device.memory()
        self._peaks = {key: max(peak, latest[key]) for key, peak in self._peaks.items()}
        return latest
