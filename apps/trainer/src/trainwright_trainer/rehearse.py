"""`run-recipe --rehearse`: a shrunk copy of the run, done on this machine, and a page about what that shows."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.recipes.words import Command, UsageError
from trainwright_trainer import dry_run
from trainwright_trainer.data_signals import stop_cleanly

if TYPE_CHECKING:
    from trainwright.recipes import ResolvedRun
    from trainwright.recipes.shrink import Rehearsal
    from trainwright.runner.distributed import Place
    from trainwright.runner.rehearsal import Rehearsed

WIDTH = 14
"""Of a row's name."""


def refuse_started_ranks(here: Place) -> None:
    """Raise UsageError where somebody has started several processes, each of which would rehearse."""
    if here.world_size > 1:
        raise UsageError(
            f"--rehearse starts its own ranks (--ranks N); it is one process, and {here.launcher} started "
            f"{here.world_size}"
        )


def rehearse(command: Command, full: ResolvedRun) -> int:
    """Shrink the run, do it, and print the page; with `--dry-run` only say how it would be shrunk.

    Raises an error with an `exit_code`: 2 for what no rehearsal can follow or the run refuses, 1 for what it found.
    """
    from trainwright.recipes.shrink import shrink

    with _folder(command) as folder:
        rehearsal = shrink(full, command.ranks, str(folder))
        if command.dry_run:
            dry_run.show(rehearsal.run)
            print(*_page(rehearsal, {}), sep="\n", file=sys.stderr)
            return 0
        stop_cleanly()
        print(*_page(rehearsal, _ran(rehearsal, _done(rehearsal, folder, command))), sep="\n")
        if command.run_dir is not None:
            print(f"\nkept in {folder}")
    return 0


@contextmanager
def _folder(command: Command) -> Iterator[Path]:
    """Where the rehearsal happens: what `--run-dir` names and stays, or a folder that goes again."""
    if command.run_dir is not None:
        yield Path(command.run_dir).absolute()
        return
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        yield Path(folder)


def _done(rehearsal: Rehearsal, folder: Path, command: Command) -> Rehearsed:
    """Do it, with a bar on a terminal; what a fault leaves is printed before its line."""
    from trainwright.datasets.progress import progress_bar
    from trainwright.runner.rehearsal import EVENTS, RehearsalFailed, rehearse

    try:
        with progress_bar("updates", EVENTS, of="items", shown=True) as progress:
            return rehearse(rehearsal, folder, progress, deterministic=command.deterministic)
    except RehearsalFailed as failure:
        if failure.details:
            print(failure.details, file=sys.stderr)
        raise


def _ran(rehearsal: Rehearsal, done: Rehearsed) -> dict[str, str]:
    """Rows about what ran."""
    again = ", ".join(f"{step}: {loss:.6f}" for step, (_, loss) in done.reloaded.items())
    first = min(done.reloaded)
    return {
        "ranks": f"{rehearsal.run.world_size} processes over gloo",
        "updates": f"{len(done.losses)} with the losses {_losses(done.losses)}",
        "validation": f"losses {_losses(done.validation)}" if done.validation else "none, as in the run",
        "checkpoint": f"saved after update {first - 1}, loaded by new processes: the same losses again ({again})",
        "session log": "accepted by the audit",
        "time": f"{done.seconds:.0f} s",
    }


def _losses(losses: Iterable[float]) -> str:
    return " ".join(f"{loss:.4f}" for loss in losses)


def _page(rehearsal: Rehearsal, ran: dict[str, str]) -> Iterator[str]:
    """The page: what ran, what was shrunk, what was not checked."""
    full = rehearsal.full
    yield f"rehearsal of {full.recipe}, {full.mode}, for {full.world_size} ranks"
    if full.known_invalid is not None:
        yield f"the run itself cannot start: {full.known_invalid}"
    for title, rows in (("ran", ran), ("shrunk", rehearsal.shrunk)):
        if rows:
            yield f"\n{title}"
            yield from (f"  {name:<{WIDTH}}  {text}" for name, text in rows.items())
    yield "\nnot checked"
    yield from (f"  - {text}" for text in rehearsal.unchecked)
