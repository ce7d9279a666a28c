"""Doing a shrunk run on this machine: train, save, load the checkpoint again, train on, and compare."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.recipes.shrink import SAVED, UPDATES
from trainwright.runner.errors import RunFailed, RunRefused
from trainwright.runner.local_ranks import RankFailed, run_ranks

if TYPE_CHECKING:
    from trainwright.recipes import ResolvedRun
    from trainwright.recipes.shrink import Rehearsal

LOG = "rehearsal.log"
"""What the ranks print, in the run directory."""
ROWS, WORDS = 64, 6
"""Generated rows of a split, and about as many words in a prompt and in its completion."""
EVENTS = UPDATES + (UPDATES - SAVED)
"""Updates of a rehearsal, those after the reload included."""
TIMEOUT = 900.0
"""Seconds for either of its sessions."""
STATUS_FILE = "TRAINWRIGHT_STATUS_FILE"


@dataclass(frozen=True)
class Rehearsed:
    """What came of a rehearsal that went well."""

    losses: tuple[float, ...]
    """Of each update, in nats."""
    reloaded: dict[int, tuple[float, float]]
    """Update after the reload -> its loss the first time, and again."""
    validation: tuple[float, ...]
    tokens: int
    seconds: float


class RehearsalFailed(RunFailed):
    """The rehearsal found something."""

    def __init__(self, line: str, details: str = "") -> None:
        super().__init__(line)
        self.details = details
        """Traceback and last words of the ranks, where the line alone does not say enough."""


def rehearse(
    rehearsal: Rehearsal,
    run_dir: Path,
    progress: Callable[[int], None] = lambda done: None,
    *,
    deterministic: bool = False,
) -> Rehearsed:
    """Do the rehearsal's run in `run_dir`, which is new or empty; `progress` is told the updates that are done.

    Raises:
        RunRefused: the directory is in use, or the run refuses to start.
        RehearsalFailed: it does not train, its checkpoint does not bring back what was saved, or its log is no
            evidence.
    """
    started = time.monotonic()
    if run_dir.exists() and (not run_dir.is_dir() or any(run_dir.iterdir())):
        raise RunRefused(f"--run-dir {run_dir} is there already; a rehearsal needs a place of its own")
    run_dir.mkdir(parents=True, exist_ok=True)
    if rehearsal.rows is not None:
        write_rows(Path(rehearsal.rows))

    def session(run: ResolvedRun) -> dict[int, float]:
        return _session(run, run_dir, deterministic, lambda: progress(len(_events(run_dir, "train"))))

    first = session(rehearsal.run)
    checkpoint = rehearsal.run.config.checkpoint.model_copy(update={"ckpt_step": SAVED})
    again = replace(rehearsal.run, config=rehearsal.run.config.model_copy(update={"checkpoint": checkpoint}))
    second = session(again)
    reloaded = {step: (first[step], second[step]) for step in range(SAVED + 1, UPDATES + 1)}
    _compare(reloaded)
    _audit(run_dir)
    return Rehearsed(
        losses=tuple(first[step] for step in range(1, UPDATES + 1)),
        reloaded=reloaded,
        validation=tuple(event["loss"] for event in _events(run_dir, "val")),
        tokens=sum(event["tokens"] for event in _events(run_dir, "train")),
        seconds=time.monotonic() - started,
    )


def _session(run: ResolvedRun, run_dir: Path, deterministic: bool, meanwhile: Callable[[], None]) -> dict[int, float]:
    """One session on all ranks; returns the losses that it logged, by update."""
    before = len(_events(run_dir, "train"))
    try:
        codes = run_ranks(train, run.world_size, run, run_dir, deterministic, timeout=TIMEOUT, meanwhile=meanwhile)
    except RankFailed as failure:
        if failure.told is None:
            raise RehearsalFailed(
                "a fault of the program, whose traceback stands above", _details(failure, run_dir)
            ) from failure
        code, line = failure.told
        raise (RunRefused(line) if code == RunRefused.exit_code else RehearsalFailed(line)) from failure
    if any(codes):
        raise RehearsalFailed(f"the ranks ended early, with the exit codes {codes}", _details("", run_dir))
    return {event["step"]: event["loss"] for event in _events(run_dir, "train")[before:]}


def train(run: ResolvedRun, run_dir: Path, deterministic: bool) -> int:
    """One session on this rank, whose words go to a file. Returns the exit code."""
    from trainwright.runner.run import run as run_session

    # The outcome that a launcher waits for is not this one.
    os.environ.pop(STATUS_FILE, None)
    with (run_dir / LOG).open("a", encoding="utf-8") as log:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(log.fileno(), stream.fileno())
    return run_session(run, run_dir=run_dir, deterministic=deterministic)


def _details(failure: object, run_dir: Path) -> str:
    log = run_dir / LOG
    said = log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:] if log.exists() else []
    return "\n".join([str(failure), "the ranks' last lines:", *said])


def write_rows(folder: Path) -> None:
    """Rows of a prompt and a completion, of different lengths and always the same."""
    folder.mkdir(parents=True)
    for split in ("training", "validation", "test"):
        with (folder / f"{split}.jsonl").open("w", encoding="utf-8") as file:
            for row in range(ROWS):
                numbers = [(row * 7 + place * 3) % 10 for place in range(1 + row % WORDS)]
                words = {"input": "sum " + "+".join(map(str, numbers)), "output": str(sum(numbers))}
                file.write(json.dumps(words) + "\n")


def _events(run_dir: Path, kind: str) -> list[dict[str, Any]]:
    """Records of the session log, as far as they are written."""
    log = run_dir / "metrics.jsonl"
    lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
    return [record for record in map(json.loads, lines) if record["event"] == kind]


def _compare(reloaded: dict[int, tuple[float, float]]) -> None:
    """The same updates after the checkpoint give the same losses, to the last bit: nothing else has changed."""
    for step, (first, again) in reloaded.items():
        if first != again:
            raise RehearsalFailed(
                f"update {step} had the loss {first!r}, and after loading the checkpoint of update {SAVED} {again!r}: "
                "what was saved is not what was trained"
            )


def _audit(run_dir: Path) -> None:
    from trainwright.metrics_audit.audit import InvalidRun, summarize

    try:
        summarize(run_dir, expect_step=UPDATES)
    except InvalidRun as refusal:
        raise RehearsalFailed(f"the audit refuses the session log: {refusal}") from None
