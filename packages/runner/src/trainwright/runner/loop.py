"""The training loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.recipes.packing import row_length
from trainwright.runner.errors import Diverged
from trainwright.runner.garbage import collect, collected_together
from trainwright.runner.step import Trainer, Update, train_step
from trainwright.runner.telemetry import Attempt
from trainwright.runner.validation import validate

if TYPE_CHECKING:
    from trainwright.runner.batches import Batch
    from trainwright.runner.build import HeldOut
    from trainwright.runner.checkpoints.saving import Saver
    from trainwright.runner.profiling import Profiler
    from trainwright.runner.progress import Progress
    from trainwright.runner.stopping import StopRequest
    from trainwright.runner.telemetry import Telemetry


@dataclass
class Session:
    """One process lifetime of a run, ready to train."""

    trainer: Trainer
    run_dir: Path
    progress: Progress
    train_batches: Iterator[Batch]
    held_out: HeldOut | None
    """Null where nothing is held out."""
    saver: Saver
    stop: StopRequest
    profiler: Profiler
    telemetry: Telemetry | None
    """Only on the rank that logs."""


def train(session: Session) -> str | None:
    """Update the model until `train.train_iters`, validating and saving on the way.

    Returns null when the run is complete, else why it stops early; either way the last state is saved.

    Raises:
        Diverged: a loss that is not finite, or too many skipped updates in a row.
        RunFailed: something cannot be written.
    """
    with collected_together(session.trainer.resolved.config.train):
        return _train(session)


def _train(session: Session) -> str | None:
    config, progress = session.trainer.resolved.config, session.progress
    reason = None
    while progress.step < config.train.train_iters and reason is None:
        session.profiler.before_update(progress.step)
        update = train_step(session.trainer, session.train_batches, stop_requested=session.stop.reason is not None)
        session.profiler.after_update(progress.step + update.applied)
        record(session, update)
        session.saver.poll()
        collect(config.train, progress.step)
        # A request that comes with the last update changes nothing: the run is complete, and its log has to say so.
        if update.stop_requested and progress.step < config.train.train_iters:
            reason = session.stop.reason or "another rank was asked to stop"
        if update.applied and not update.stop_requested and due(progress.step, config.validation.eval_interval):
            run_validation(session)
        if update.applied and due(progress.step, config.checkpoint.save_interval) and not ends(session, reason):
            save(session)
    finish(session, reason)
    return reason


def record(session: Session, update: Update) -> None:
    """Count the update and tell the telemetry.

    Raises:
        Diverged: `train.max_consecutive_skipped_updates` is reached.
    """
    config = session.trainer.resolved.config
    train, tokens = config.train, config.train.global_batch_size * row_length(config)
    session.progress.count(applied=update.applied, samples=train.global_batch_size, tokens=tokens)
    session.stop.expect(update.seconds)
    if session.telemetry:
        session.telemetry.attempt(
            Attempt(
                loss=update.loss,
                grad_norm=update.grad_norm,
                applied=update.applied,
                clipped=update.clipped,
                tokens=tokens,
                supervised_tokens=update.supervised_tokens,
                seconds=update.seconds,
                learning_rates=update.learning_rates,
                loss_scale=update.loss_scale,
                flops=update.flops,
                heads=update.heads,
            )
        )
    skips = session.progress.consecutive_skips
    if skips >= train.max_consecutive_skipped_updates:
        raise Diverged(
            f"{skips} updates in a row were skipped, because loss or gradients are not finite, or for want of tokens "
            f"to learn (train.max_consecutive_skipped_updates={train.max_consecutive_skipped_updates})"
        )


def run_validation(session: Session) -> None:
    """Measure the loss on held-out data, if there is any; given up when the run is to stop."""
    held_out = session.held_out
    if held_out is None:
        return
    started = time.perf_counter()
    loss = validate(
        session.trainer,
        held_out.start(),
        held_out.global_batches,
        stop_requested=lambda: session.stop.reason is not None,
    )
    seconds = time.perf_counter() - started
    if loss is not None and session.telemetry:
        session.telemetry.validation(loss, seconds)


def save(session: Session, then: Callable[[], None] | None = None) -> None:
    """Save the state as it is now, log that it is written, and do `then` before it becomes the latest checkpoint."""
    started = time.perf_counter()
    telemetry = session.telemetry
    # The open window ends here, so that a session which starts from this checkpoint starts at a record of the log.
    snapshot = telemetry.snapshot() if telemetry else None

    def written(path: Path, seconds: float) -> None:
        if telemetry:
            telemetry.checkpoint(path, seconds, snapshot)
        if then:
            then()

    session.saver.save(session.progress, written)
    session.stop.expect(time.perf_counter() - started)


def finish(session: Session, reason: str | None) -> None:
    """Save the last state and close the session in the log: as complete, or as stopped early for `reason`."""
    telemetry = session.telemetry
    session.profiler.close()
    if reason is None:
        save(session, then=telemetry.finish if telemetry else None)
        session.saver.close()
        return
    if session.saver.last_step != session.progress.step:
        save(session)
    session.saver.close()
    if telemetry:
        telemetry.interrupt(reason)


def ends(session: Session, reason: str | None) -> bool:
    """Whether the loop ends after this update: the last state is saved by `finish`."""
    return reason is not None or session.progress.step >= session.trainer.resolved.config.train.train_iters


def due(step: int, interval: int | None) -> bool:
    """Whether something that comes every `interval` updates comes after this one."""
    return interval is not None and step % interval == 0
