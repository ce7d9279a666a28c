"""Showing how the run is doing: one line that moves on a terminal, a plain line for each window elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol, TextIO


@dataclass(frozen=True)
class Status:
    """Where the run stands, as a person wants to know it."""

    step: int
    train_iters: int
    loss: float
    learning_rate: float
    grad_norm: float
    tokens_per_second: float
    """Nominal positions, padding included."""
    learnt: float
    """Share of those positions that are supervised."""
    tflops_per_device: float | None
    epoch: float | None
    """Sequences consumed over sequences of the dataset."""
    skipped_updates: int
    """Over the whole run."""
    seconds_left: float | None

    def numbers(self) -> str:
        """Everything but the step."""
        parts = [
            f"loss {self.loss:.4f}",
            f"lr {self.learning_rate:.3e}",
            f"grad norm {self.grad_norm:.3f}",
            f"{self.tokens_per_second:,.0f} tokens/s" + (f" ({self.learnt:.0%} learnt)" if self.learnt < 1 else ""),
        ]
        if self.tflops_per_device is not None:
            parts.append(f"{self.tflops_per_device:.4g} TFLOP/s/device")
        if self.epoch is not None:
            parts.append(f"epoch {self.epoch:.2f}")
        if self.skipped_updates:
            parts.append(f"{self.skipped_updates} skipped")
        if self.seconds_left is not None:
            parts.append(f"{duration(self.seconds_left)} left")
        return " | ".join(parts)


def duration(seconds: float) -> str:
    """Hours, minutes and seconds: `1:02:03`."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


class Pace:
    """Seconds that an update takes lately, pauses for validation and checkpoints included."""

    def __init__(self) -> None:
        self._ends: deque[float] = deque(maxlen=65)

    def update(self, now: float, seconds: float) -> None:
        """An update that took so many seconds ended `now`."""
        if not self._ends:
            self._ends.append(now - seconds)
        self._ends.append(now)

    def seconds_for(self, updates: int) -> float | None:
        """Time that so many more updates will take; null before the first."""
        if len(self._ends) < 2:
            return None
        return (self._ends[-1] - self._ends[0]) / (len(self._ends) - 1) * updates


class Display(Protocol):
    """What both ways of showing have in common."""

    @property
    def due(self) -> bool:
        """Whether `update` has something to show; what is not shown need not be worked out."""
        ...

    def update(self, status: Status) -> None:
        """After each update."""
        ...

    def window(self, status: Status) -> None:
        """After each window of the session log."""
        ...

    def say(self, text: str) -> None:
        """Show a line of its own."""
        ...

    def close(self) -> None:
        """Leave the screen in order. Closing twice does nothing."""
        ...


class PlainLines:
    """For a log file: one dated line for each window and each remark."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def due(self) -> bool:
        """Never."""
        return False

    def update(self, status: Status) -> None:
        """Nothing: a window's line says it."""

    def window(self, status: Status) -> None:
        """One line."""
        self.say(f"step {status.step}/{status.train_iters} | {status.numbers()}")

    def say(self, text: str) -> None:
        """One line, at once."""
        print(time.strftime("%Y-%m-%d %H:%M:%S"), text, file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing to do."""


class TerminalLine:
    """For a person: a bar with the numbers of the last update."""

    SECONDS_BETWEEN = 0.2

    def __init__(self, stream: TextIO, *, step: int, train_iters: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.table import Column

        numbers = TextColumn("{task.fields[numbers]}", table_column=Column(no_wrap=True, overflow="ellipsis"))
        # Drawn by the training thread: a thread of its own would hold rich's lock when a checkpoint forks its writer.
        self._progress: Any = Progress(
            BarColumn(bar_width=16), MofNCompleteColumn(), numbers,
            console=Console(file=stream), auto_refresh=False,
            # What others print goes above the bar, but not if its stream leads elsewhere, as with `2> errors.log`.
            redirect_stdout=sys.stdout.isatty(), redirect_stderr=sys.stderr.isatty(),
        )  # fmt: skip
        self._task = self._progress.add_task("", total=train_iters, completed=step, numbers="")
        self._shown = 0.0
        self._progress.start()

    @property
    def due(self) -> bool:
        """At most every fifth of a second."""
        return time.monotonic() - self._shown >= self.SECONDS_BETWEEN

    def update(self, status: Status) -> None:
        """Redraw."""
        self._shown = time.monotonic()
        self._progress.update(self._task, completed=status.step, numbers=status.numbers(), refresh=True)

    def window(self, status: Status) -> None:
        """Redraw."""
        self.update(status)

    def say(self, text: str) -> None:
        """A line above the bar."""
        self._progress.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        """Leave the last state of the bar on the screen."""
        self._progress.stop()


def open_display(stream: TextIO | None, *, step: int, train_iters: int) -> Display:
    """The moving line where `stream` (standard output, if null) is a terminal, plain lines elsewhere."""
    stream = sys.stdout if stream is None else stream
    if stream.isatty():
        return TerminalLine(stream, step=step, train_iters=train_iters)
    return PlainLines(stream)
