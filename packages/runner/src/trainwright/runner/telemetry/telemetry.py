"""Everything that a training session tells: session log, TensorBoard, W&B, the line on the screen."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TextIO

from trainwright.metrics_audit import names
from trainwright.metrics_audit.writer import SessionLogError
from trainwright.runner.errors import RunError, RunFailed, RunRefused
from trainwright.runner.telemetry import scalars
from trainwright.runner.telemetry.display import Display, Pace, Status, open_display
from trainwright.runner.telemetry.event_file import EventFile
from trainwright.runner.telemetry.records import SessionRecords
from trainwright.runner.telemetry.session_start import qk_clip_threshold, start_session
from trainwright.runner.telemetry.weights_and_biases import WandbRun
from trainwright.runner.telemetry.window import Attempt, Pending, Snapshot, Totals, Window

if TYPE_CHECKING:
    from trainwright.metrics_audit.writer import SessionLog
    from trainwright.recipes import ConfigContainer, ResolvedRun
    from trainwright.runner.devices import Device

FAILED = "failed"
"""An event beyond those of the session log's format, of a session that an error ends: `total`, `pending`, `reason`."""


class Sink(Protocol):
    """Something that takes scalars."""

    def write(self, step: int, values: dict[str, float], /) -> None:
        """Take one point of each tag."""
        ...

    def close(self, *, exit_code: int) -> None:
        """Take no more; `exit_code` says how the session ended."""
        ...


class Telemetry:
    """The telemetry of one session, held by the one rank that logs.

    Make it with `open`, tell it what happens, and end it once: with `finish`, `interrupt` or `fail`. As a context
    manager it ends itself as failed when an exception passes, and closes its files in any case. The session log stays
    its caller's to close. Every method raises `RunFailed` when a file can no longer be written.
    """

    def __init__(
        self,
        config: ConfigContainer,
        run_dir: Path,
        records: SessionRecords,
        sizes: scalars.Sizes,
        sinks: list[Sink],
        display: Display,
        dataset_tokens: int,
    ) -> None:
        self._config, self._run_dir, self._records, self._sizes = config, run_dir, records, sizes
        self._sinks, self._display, self._dataset_tokens = sinks, display, dataset_tokens
        self._pace = Pace()
        self._ended = self._closed = False
        self._exit_code = 1

    @classmethod
    def open(
        cls,
        run_dir: Path,
        resolved: ResolvedRun,
        *,
        run_id: str,
        log: SessionLog,
        start: Totals,
        device: Device,
        session_clock_start: float,
        dataset_samples: int | None = None,
        adapters: Mapping[str, Any] | None = None,
        stream: TextIO | None = None,
    ) -> Self:
        """Start the session in the log, a new event file, and `environment.json`.

        Args:
            log: the run directory's, open, without a session of this process yet.
            start: what the checkpoint restored, zeros for a fresh run.
            session_clock_start: `time.monotonic()` when the session began.
            dataset_samples: sequences in one pass over the training data, for the epoch; null shows none.
            adapters: what an adapter run says of itself in `run.json`.
            stream: where progress is shown; null is standard output.

        Raises:
            RunRefused: something cannot be written, or wandb is asked for and cannot be used.
        """
        from trainwright.recipes.packing import row_length

        config, run_dir = resolved.config, Path(run_dir)
        row = row_length(config)
        sizes = scalars.Sizes(config.train.global_batch_size, resolved.world_size)
        records = SessionRecords(
            log,
            start,
            device,
            tokens_per_update=config.train.global_batch_size * row,
            clock_start=session_clock_start,
            qk_clip_threshold=qk_clip_threshold(config),
        )
        with contextlib.ExitStack() as on_error, _errors_as(RunRefused):
            # The session is entered in the log last: one that cannot start must not stand there.
            events = EventFile.create(tensorboard_dir(config, run_dir), first_step=start.step + 1)
            on_error.callback(events.close)
            sinks: list[Sink] = [events]
            if config.logger.wandb_project is not None:
                sinks.append(WandbRun.start(config, run_dir, run_id=run_id))
                on_error.callback(sinks[-1].close, exit_code=1)
            start_session(log, resolved, run_dir, start=start, device=device, adapters=adapters)
            on_error.pop_all()
        display = open_display(stream, step=start.step, train_iters=config.train.train_iters)
        return cls(config, run_dir, records, sizes, sinks, display, (dataset_samples or 0) * row)

    @property
    def totals(self) -> Totals:
        """Where the run stands, every attempt counted."""
        return self._records.totals

    @property
    def pending(self) -> Pending:
        """Attempts since the last window. Only after `snapshot` are these all that `totals` has beyond the windows."""
        return self._records.window.pending

    def attempt(self, attempt: Attempt) -> None:
        """An update was attempted.

        A window ends at every multiple of `logger.log_interval` of the run's steps, so a resume keeps the grid.

        Raises:
            ValueError: the attempt contradicts itself, or the session's batch size.
        """
        with _errors_as(RunFailed):
            memory = self._records.add(attempt)
            totals = self._records.totals
            if not attempt.applied:
                # The update that was tried is the next one; its success will log the same step again.
                self._publish(totals.step + 1, scalars.of_skip(attempt, totals.skipped_updates))
                self._display.say(_skip_line(attempt, totals.step + 1))
                return
            self._publish(totals.step, scalars.of_update(attempt, memory, self._sizes))
            self._pace.update(time.monotonic(), attempt.seconds)
            if totals.step % self._config.logger.log_interval == 0:
                self._close_window()
            elif self._display.due:
                self._display.update(self._status(self._records.window))

    def validation(self, loss: float, seconds: float) -> None:
        """A validation took so many seconds. A loss that is not finite is logged as null, and the audit refuses it."""
        with _errors_as(RunFailed):
            step = self.totals.step
            self._publish(step, {scalars.VALIDATION_LOSS: loss})
            self._records.write(names.VAL, step=step, loss=loss if math.isfinite(loss) else None, seconds=seconds)
            self._display.say(f"step {step} | validation loss {loss:.4f} | {seconds:.1f} s")

    def snapshot(self) -> Snapshot:
        """The point of the run that a checkpoint taken now holds; ends the open window."""
        with _errors_as(RunFailed):
            self._close_window()
            return self._records.snapshot()

    def checkpoint(self, path: str | os.PathLike[str], seconds: float, snapshot: Snapshot | None = None) -> None:
        """A checkpoint is complete at `path` (absolute, or relative to the working directory).

        `snapshot` is what it holds, if attempts have been made since: a background save ends later. The record then
        still says where the log stands, and `restores` where a session will start from it: after a window that
        `snapshot` ended.
        """
        current = self.snapshot()
        restores = (snapshot or current).point
        relative = os.path.relpath(path, self._run_dir)
        with _errors_as(RunFailed):
            self._records.write(
                names.CHECKPOINT,
                step=current.total.step,
                path=relative,
                seconds=seconds,
                restores=asdict(restores),
                **current.fields(),
            )
            self._display.say(f"step {restores.step} | saved {relative} | {seconds:.1f} s")

    def profiled(self, seconds: float) -> None:
        """So many seconds of this session went into profiling."""
        self._records.profiling_seconds += seconds

    def finish(self) -> None:
        """The run has all its updates: the last window, `session_end`, and every file closed."""
        self._end(names.SESSION_END, exit_code=0)

    def interrupt(self, reason: str) -> None:
        """The session stops early in good order, its checkpoint being safe."""
        self._end(names.SESSION_INTERRUPTED, exit_code=0, reason=reason)

    def fail(self, reason: str) -> None:
        """The session ends in an error. Writes what can be written, and does not raise: the error matters more."""
        with contextlib.suppress(Exception):
            self._end(FAILED, exit_code=1, reason=reason)

    def close(self) -> None:
        """Close what `open` opened, without a word in the log. Closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        with contextlib.ExitStack() as each:  # closes the others too when closing one of them fails
            each.callback(self._display.close)
            for sink in self._sinks:
                each.callback(sink.close, exit_code=self._exit_code)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not self._ended:
            self.fail(str(error) or type(error).__name__)
        self.close()

    def _end(self, event: str, *, exit_code: int, **fields: Any) -> None:
        try:
            point = self.snapshot()
            with _errors_as(RunFailed):
                self._records.write(event, step=point.total.step, **point.fields(), **fields)
            self._exit_code = exit_code
        finally:
            self._ended = True
            self.close()

    def _publish(self, step: int, values: dict[str, float]) -> None:
        for sink in self._sinks:
            sink.write(step, values)

    def _close_window(self) -> None:
        window = self._records.close_window()
        if window is not None:
            self._display.window(self._status(window))

    def _status(self, window: Window) -> Status:
        totals, iterations = self._records.totals, self._config.train.train_iters
        return Status(
            step=totals.step,
            train_iters=iterations,
            loss=window.loss,
            learning_rate=next(iter(window.learning_rates.values())),
            grad_norm=window.grad_norm,
            tokens_per_second=window.tokens / window.seconds,
            learnt=window.supervised_tokens / window.tokens,
            tflops_per_device=self._sizes.tflops_per_device(window.flops, window.seconds),
            epoch=totals.tokens / self._dataset_tokens if self._dataset_tokens else None,
            skipped_updates=totals.skipped_updates,
            seconds_left=self._pace.seconds_for(max(0, iterations - totals.step)),
        )


def tensorboard_dir(config: ConfigContainer, run_dir: Path) -> Path:
    """Where the event files go: `logger.tensorboard_dir`, else `tb_logs` in the run directory."""
    return Path(config.logger.tensorboard_dir) if config.logger.tensorboard_dir else run_dir / "tb_logs"


def _skip_line(attempt: Attempt, step: int) -> str:
    shown = {"loss": attempt.loss, "grad norm": attempt.grad_norm, "loss scale": attempt.loss_scale}
    known = (f"{name} {value:g}" for name, value in shown.items() if value is not None)
    why = () if attempt.supervised_tokens else ("no token to learn",)
    return f"step {step} | update skipped | {', '.join((*why, *known))}"


@contextlib.contextmanager
def _errors_as(kind: type[RunError]) -> Iterator[None]:
    try:
        yield
    except SessionLogError as error:
        raise kind(str(error)) from None
    except OSError as error:
        raise kind(f"cannot write {error.filename or 'the telemetry'}: {error.strerror or error}") from None
