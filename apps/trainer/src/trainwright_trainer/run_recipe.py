"""`run-recipe`: the command of every rank. Words in, a trained model or a clear refusal out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.recipes.words import Command, UsageError, parse, wants_help
from trainwright_trainer import dry_run, environment, plan, rehearse
from trainwright_trainer.help_text import help_text
from trainwright_trainer.one_voice import tell_once
from trainwright_trainer.outcome import one_line, told
from trainwright_trainer.process import auto_device, refuse_lonely_world_size, requested_world_size

if TYPE_CHECKING:
    from trainwright.recipes import ResolvedRun
    from trainwright.runner.distributed import Place

SPOKEN = 8
"""Differences from a benchmark that are said in one line; `run.json` holds all."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line `words` (default: this process's own) and return the exit code."""
    own_process = words is None
    words = sys.argv[1:] if words is None else words
    if wants_help(words):
        print(help_text(), end="")
        return 0
    return told("run-recipe", lambda: run_recipe(words, own_process=own_process), tell=tell_once)


def run_recipe(words: Sequence[str], *, own_process: bool = False) -> int:
    """Resolve the command line, then train, or show what would be trained.

    `own_process`: the words are this process's own, so it may begin once more with the recipe's variables. Raises an
    error with an `exit_code` for anything that the user can mend.
    """
    from trainwright.runner.distributed import place

    here = place()
    with refusal_for_launcher(here):
        command = parse(words)
        if command.rehearse:
            rehearse.refuse_started_ranks(here)
        resolved = _resolve(command, here.world_size)
        run_dir = _run_dir(command, resolved)
        installed = environment.install(resolved.config.env_vars, anew=own_process and not command.dry_run)
        resolved = environment.as_it_is(resolved, installed)
        say(spoken(resolved), here)
        if command.dump_env:
            say(environment.dumped(resolved, installed), here)
        if command.rehearse:
            return rehearse.rehearse(command, resolved)
        if command.dry_run and not command.plan:  # a plan is about other machines than this one
            say(check(resolved, run_dir), here)
    if command.dry_run:
        if here.rank == 0:
            plan.show(resolved) if command.plan else dry_run.show(resolved)
        return 0

    from trainwright.runner.run import run

    return run(resolved, run_dir=run_dir, deterministic=command.deterministic)


def check(resolved: ResolvedRun, run_dir: Path | None) -> Iterator[str]:
    """What a run would find out about this machine before its ranks meet; a line for what cannot be told here.

    A tokenizer that cannot be fetched here may be in the cache of the machines that train.
    """
    from trainwright.datasets.errors import NotFetched
    from trainwright.runner import directory, preflight

    run_dir = directory.locate(resolved, run_dir)
    try:
        preflight.check(directory.with_paths(resolved.config, run_dir), run_dir, only_look=True)
    except NotFetched as error:
        yield f"run-recipe: warning: the data was not checked: {one_line(error)}"


@contextmanager
def refusal_for_launcher(here: Place) -> Iterator[None]:
    """Leave a refusal where the launcher looks for the outcome, as `run` does from there on."""
    try:
        yield
    except Exception as error:
        from trainwright.runner.run import tell_launcher

        code = getattr(error, "exit_code", None)
        if isinstance(code, int):
            tell_launcher(here, exit_code=code, reason=one_line(error), session_id=None, step=None)
        raise


def say(lines: Iterable[str], here: Place) -> None:
    """Print lines to stderr, on one rank of all."""
    for line in lines:
        if here.rank == 0:
            print(line, file=sys.stderr)


def spoken(resolved: ResolvedRun) -> Iterator[str]:
    """Lines that the person who watches should read, and that stay in the log of a job."""
    yield from (f"run-recipe: warning: {warning}" for warning in resolved.warnings)
    yield from (f"run-recipe: {remark}" for remark in resolved.remarks)
    if resolved.benchmark and not resolved.canonical:
        yield f"run-recipe: not the canonical benchmark: {'; '.join(_in_short(resolved))}"


def _in_short(resolved: ResolvedRun) -> Iterator[str]:
    """The first differences from the recipe; those of the device only counted, for nobody asked for them."""
    asked = [line for line in resolved.canonical_differences if not line.endswith("(device)")]
    yield from asked[:SPOKEN]
    if (more := len(asked) - SPOKEN) > 0:
        yield f"{more} more, all in run.json"
    if by_device := len(resolved.canonical_differences) - len(asked):
        yield f"what the device {resolved.device} sets ({by_device} fields)"


def _resolve(command: Command, started: int) -> ResolvedRun:
    """The configuration for as many ranks as were started; a dry run and a rehearsal may be about another number.

    What is planned or rehearsed runs on GPUs unless somebody says otherwise. A recipe that is known to be invalid is
    for looking at and for rehearsing only.
    """
    of_another = command.dry_run or command.rehearse
    if not of_another:
        refuse_lonely_world_size()

    from trainwright.recipes import resolve
    from trainwright.recipes.known_invalid import require_valid

    automatic = "cuda" if command.rehearse or command.plan else auto_device()
    resolved = resolve(
        command.selection,
        command.overrides,
        world_size=requested_world_size() if of_another else started,
        device=automatic if command.device == "auto" else command.device,
        flags=command.flags,
        deterministic=command.deterministic,
    )
    if not of_another:
        require_valid(resolved)
    return resolved


def _run_dir(command: Command, resolved: ResolvedRun) -> Path | None:
    """The run directory that was named, by flag or by field."""
    field = resolved.config.logger.run_dir
    if command.run_dir is not None and field not in (None, command.run_dir):
        raise UsageError(f"--run-dir {command.run_dir} and logger.run_dir={field} contradict each other; give one")
    named = command.run_dir or field
    return Path(named) if named else None
