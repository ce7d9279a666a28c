"""Reasons to stop before the last update: a signal, or the end of the time that the job has."""

from __future__ import annotations

import signal
import time
from types import FrameType, TracebackType
from typing import Self

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class StopRequest:
    """Remembers that somebody asked this process to stop, as a context manager around training.

    A handler only takes a note: the loop asks between updates, and agrees on it with all ranks.
    """

    def __init__(self, *, handle_signals: bool, minutes: float | None, session_started: float) -> None:
        self._handle_signals = handle_signals
        self._deadline = None if minutes is None else session_started + minutes * 60
        self._signal: str | None = None
        self._previous: dict[int, object] = {}
        self._longest = 0.0

    def __enter__(self) -> Self:
        if self._handle_signals:
            for number in SIGNALS:
                self._previous[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal.signal itself returned

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self._signal = signal.Signals(number).name

    def expect(self, seconds: float) -> None:
        """Tell how long something took that will come again before the end: an update, a checkpoint."""
        self._longest = max(self._longest, seconds)

    @property
    def reason(self) -> str | None:
        """Why this process wants to stop, or null.

        The time limit includes what comes after the last update: room is left for the longest thing seen, twice.
        """
        if self._signal is not None:
            return self._signal
        if self._deadline is not None and time.monotonic() + 2 * self._longest >= self._deadline:
            return "time limit (train.exit_duration_in_mins)"
        return None
