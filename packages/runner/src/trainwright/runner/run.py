"""One session of a run, from a resolved configuration to an exit code."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.runner import directory, preflight
from trainwright.runner.checkpoints.folder import CheckpointFolder
from trainwright.runner.distributed import Place, place, rank_zero_first, share, start, stop
from trainwright.runner.errors import Diverged, RunFailed, RunRefused
from trainwright.runner.failures import first_line, named
from trainwright.runner.stopping import StopRequest

if TYPE_CHECKING:
    from trainwright.metrics_audit.writer import SessionLog
    from trainwright.recipes import ConfigContainer, ResolvedRun
    from trainwright.runner.devices import Device
    from trainwright.runner.loop import Session

DONE, STOPPED_EARLY = 0, 75
REPORT = "training_report.json"
STATUS_FILE = "TRAINWRIGHT_STATUS_FILE"
"""Environment variable: where a launcher wants the outcome of this run, also when it was refused."""


def run(resolved: ResolvedRun, *, run_dir: Path | None = None, deterministic: bool = False) -> int:
    """Train as `resolved` says, in a new run directory or continuing the one that is there.

    Returns 0 when the run is complete (also when it was already), 75 when it stopped early in good order.

    Raises:
        RunRefused: nothing was trained, and nothing was left behind.
        RunFailed: training began and cannot go on, or the report cannot be built.
    """
    here = place()
    with outcome_for_launcher(here) as outcome:
        outcome["exit_code"] = run_session(resolved, run_dir, here, deterministic=deterministic, outcome=outcome)
    return int(outcome["exit_code"])


def run_session(resolved: ResolvedRun, run_dir: Path | None, here: Place, *, deterministic: bool, outcome: dict) -> int:
    """The work of `run`: find the directory, come up, build, continue, train, report."""
    clock = time.monotonic()
    run_dir = directory.locate(resolved, run_dir)
    config = directory.with_paths(resolved.config, run_dir)
    if not preflight.check(config, run_dir):
        outcome.update(reason="the run was complete already", step=config.train.train_iters)
        if here.rank == 0 and not (run_dir / REPORT).exists():
            report(run_dir)  # the session that completed the run was killed before it came to this
        say(here, f"nothing to do: {run_dir} holds the complete run of {config.train.train_iters} updates")
        return DONE
    device = come_up(resolved, here, deterministic=deterministic)
    run_dir = share(run_dir, here)
    config = directory.with_paths(resolved.config, run_dir)
    resolved = replace(resolved, config=config)
    stop_request = StopRequest(
        handle_signals=config.train.exit_signal_handler,
        minutes=config.train.exit_duration_in_mins,
        session_started=clock,
    )
    # From here on there is something to leave in good order, so a signal waits for the first update to end.
    with stop_request, exclusive(run_dir, config, here) as log:
        session = prepare(resolved, run_dir, log, device, here, clock, stop_request)
        reason = train_and_log(session, log, outcome)
        # All wait for it: srun and torchrun give the ranks that are left little time once one has gone.
        rank_zero_first(lambda: report(run_dir), here)
    stop()
    if reason is None:
        say(here, f"done: {config.train.train_iters} updates in {run_dir}")
        return DONE
    rolled_back = config.checkpoint.ckpt_step and preflight.is_for_own(config.checkpoint)
    again = "the same command without checkpoint.ckpt_step" if rolled_back else "the same command"
    say(here, f"stopped early ({reason}) after {session.progress.step} of {config.train.train_iters} updates; "
              f"{again} with --run-dir {run_dir} continues")  # fmt: skip
    return STOPPED_EARLY


def come_up(resolved: ResolvedRun, here: Place, *, deterministic: bool) -> Device:
    """The device, then the process groups. Nothing of Megatron may be imported before the device is chosen.

    Raises:
        RunRefused: the number of ranks is not the one that was resolved.
    """
    if here.world_size != resolved.world_size:
        raise RunRefused(f"the configuration is for {resolved.world_size} ranks and {here.world_size} were started")
    from trainwright.runner.devices import use_device

    device = use_device(resolved.device)
    if deterministic:
        make_deterministic()
    start(resolved.config, device, here)
    return device


def make_deterministic() -> None:
    """Let torch refuse operations that may give other bits another time; what CUDA reads is set before it starts."""
    import torch

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    os.environ.setdefault("NVTE_ALLOW_NONDETERMINISTIC_ALGO", "0")
    torch.use_deterministic_algorithms(True)


@contextmanager
def exclusive(run_dir: Path, config: ConfigContainer, here: Place) -> Iterator[SessionLog | None]:
    """Hold the run directory; rank 0 gets its session log. What is made here goes again if no session starts.

    Raises:
        RunRefused: another process holds it, or it cannot be written.
    """
    from trainwright.metrics_audit.writer import SessionLog, SessionLogError

    made_here = [path for path in (run_dir, *run_dir.parents) if not path.exists()]
    before = directory.left_by_start(run_dir)

    def open_log() -> SessionLog:
        try:
            return SessionLog.open(run_dir, run_id=run_dir.name)
        except SessionLogError as error:
            raise RunRefused(str(error)) from None

    log = rank_zero_first(open_log, here)
    try:
        rank_zero_first(lambda: directory.check(run_dir, config), here)
        yield log
    finally:
        if log:
            started = log.session_id is not None
            log.close()
            if not started:
                directory.remove(directory.left_by_start(run_dir) - before)
                for path in made_here:
                    with suppress(OSError):  # somebody else has begun to use it
                        path.rmdir()


def prepare(
    resolved: ResolvedRun,
    run_dir: Path,
    log: SessionLog | None,
    device: Device,
    here: Place,
    clock: float,
    stop_request: StopRequest,
) -> Session:
    """Build everything, restore what a checkpoint holds, and open the session in the log."""
    from trainwright.runner.adapters.count import counted
    from trainwright.runner.build import build_data, build_trainer
    from trainwright.runner.checkpoints.saving import Saver
    from trainwright.runner.loop import Session
    from trainwright.runner.profiling import Profiler
    from trainwright.runner.resume import restore, same_data
    from trainwright.runner.telemetry import Telemetry, Totals

    config = resolved.config
    trainer, tokenizer = build_trainer(resolved, device)
    progress, remarks = restore(trainer)
    counts = counted(trainer)
    data = build_data(resolved, tokenizer, device, consumed_samples=progress.consumed_samples)
    for remark in (*remarks, *same_data(progress, data.digest, config.checkpoint)):
        say(here, remark)
    if counts is not None:
        say(here, counts.line())
    rank_zero_first(lambda: directory.create(run_dir, config), here)

    def open_telemetry() -> Telemetry:
        return Telemetry.open(
            run_dir, resolved, run_id=log.run_id, log=log,
            start=Totals(step=progress.step, tokens=progress.tokens, skipped_updates=progress.skipped_updates),
            device=device, session_clock_start=clock,
            dataset_samples=data.samples_per_epoch,
            adapters=counts.record() if counts else None,
        )  # fmt: skip

    telemetry = rank_zero_first(open_telemetry, here)
    return Session(
        trainer=trainer,
        run_dir=run_dir,
        progress=progress,
        train_batches=data.train,
        held_out=data.held_out,
        saver=Saver(trainer, CheckpointFolder(Path(str(config.checkpoint.save))), here),
        stop=stop_request,
        profiler=Profiler(config, run_dir, here.rank, telemetry),
        telemetry=telemetry,
    )


def train_and_log(session: Session, log: SessionLog | None, outcome: dict) -> str | None:
    """Train; a failure ends in the log with its reason. Returns why training stopped early, or null.

    Raises:
        RunFailed: it cannot go on, here or on another rank. Any other exception is a fault of the program.
    """
    from trainwright.runner.loop import train

    try:
        reason = train(session)
    except (Exception, KeyboardInterrupt) as error:
        end_as_failed(session, log, named(error))
        raise
    outcome.update(reason=reason or "complete", step=session.progress.step, session_id=log.session_id if log else None)
    leave_status(session, log, STOPPED_EARLY if reason else DONE, outcome["reason"])
    return reason


def end_as_failed(session: Session, log: SessionLog | None, failure: BaseException) -> None:
    """Leave the reason behind, as far as that is still possible: the failure itself matters more."""
    with suppress(RunFailed):
        if isinstance(failure, Diverged):
            session.saver.close()  # all ranks are here, so that a save in the background can still be completed
        else:
            session.saver.abandon()
    if session.telemetry:
        session.telemetry.fail(first_line(failure))
    with suppress(RunFailed):
        leave_status(session, log, RunFailed.exit_code, first_line(failure))


def leave_status(session: Session, log: SessionLog | None, exit_code: int, reason: str) -> None:
    """The outcome as `status.json` in the run directory, from the rank that logs.

    Raises:
        RunFailed: it cannot be written.
    """
    if log is None:
        return
    path = session.run_dir / directory.STATUS
    try:
        directory.write_status(
            path, exit_code=exit_code, reason=reason, session_id=log.session_id, step=session.progress.step
        )
    except OSError as error:
        raise RunFailed(f"cannot write {path}: {error.strerror}") from error


def report(run_dir: Path) -> None:
    """Write `training_report.json` from what the run left behind.

    Raises:
        RunFailed: the report cannot be built from it.
    """
    from trainwright.report_schema.parsers import write_run_report

    try:
        write_run_report(run_dir)
    except Exception as error:  # the training is done and safe; say what is wrong with its evidence
        raise RunFailed(f"training is complete, but its report cannot be built: {error}") from error


@contextmanager
def outcome_for_launcher(here: Place) -> Iterator[dict]:
    """Leave the outcome where `TRAINWRIGHT_STATUS_FILE` says, an error included: torchrun and srun flatten codes."""
    outcome: dict = {"exit_code": 1, "reason": "ended unexpectedly", "session_id": None, "step": None}
    try:
        yield outcome
    except Exception as error:
        failure = named(error)
        outcome.update(exit_code=getattr(failure, "exit_code", RunFailed.exit_code), reason=first_line(failure))
        if failure is error:
            raise
        raise failure from error
    finally:
        tell_launcher(here, **outcome)


def tell_launcher(here: Place, *, exit_code: int, reason: str, session_id: str | None, step: int | None) -> None:
    """Write the outcome where the launcher looks for it, if it does. Of several ranks that fail the first one tells."""
    path = os.environ.get(STATUS_FILE)
    if path and (here.rank == 0 or exit_code not in (DONE, STOPPED_EARLY)):
        directory.write_first_status(Path(path), exit_code=exit_code, reason=reason, session_id=session_id, step=step)


def say(here: Place, text: str) -> None:
    """One line to the person who watches, from one rank."""
    if here.rank == 0:
        print(f"run-recipe: {text}", file=sys.stderr, flush=True)
