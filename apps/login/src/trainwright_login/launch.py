"""`trainwright launch`: send run-recipe's words to where they run."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from trainwright.launch.settings import Settings
    from trainwright.launch.slurm_job import SlurmJob


def launch(context: typer.Context) -> None:
    """Send a recipe to where it runs."""
    raise typer.Exit(run(context.args))


def run(words: Sequence[str]) -> int:
    """Carry out `trainwright launch` with the words after it; the exit code. Raises errors with an `exit_code`."""
    from trainwright.launch.command_line import split, wants_help

    if wants_help(words):
        from trainwright.launch.help_text import help_text

        print(help_text(), end="")
        return 0

    from trainwright.launch.clusters import selected_cluster
    from trainwright.launch.settings import effective

    here = _working_directory()
    typed = split(words)
    settings = effective(typed, os.environ, selected_cluster(typed, os.environ, cwd=here), cwd=here)
    for note in settings.notes:
        _say(note)
    return _local(settings, typed.words) if settings.kind == "local" else _slurm(settings, typed.words)


def _working_directory() -> Path:
    from trainwright.launch.errors import LaunchError

    try:
        return Path.cwd()
    except FileNotFoundError:
        raise LaunchError("the working directory does not exist any more: cd to one that does") from None


def _local(settings: Settings, words: Sequence[str]) -> int:
    """run-recipe is on this machine, so it checks its words itself; the preflight says whether it is asked to."""
    from trainwright.launch.local import launch_local, local_job, ranks

    number = ranks(settings)
    if settings.show:
        _print_settings(settings)
        print(f"\nthe command:\n  {local_job(words, nproc_per_node=number).command_line}")
        return 0
    check = settings.preflight is not False
    return launch_local(words, nproc_per_node=number, dry_run=settings.dry_run, check=check, settings=settings)


def _slurm(settings: Settings, words: Sequence[str]) -> int:
    from trainwright_login import preflight

    check = preflight.chosen(settings.preflight)
    if settings.show:
        job = _job(settings, words)
        _print_settings(settings)
        print(f"\n{preflight.verdict(check, words, job.nodes * job.tasks_per_node)}\n\n{_command(job)}")
    elif settings.render is not None:
        from trainwright.launch.batch_script import render_sbatch
        from trainwright.launch.recipe_names import size_note

        job = _job(settings, words)
        for line in (check or size_note)(words, job.nodes * job.tasks_per_node):
            _say(line)
        print(render_sbatch(job), end="")
    else:
        from trainwright.launch.slurm import launch_slurm

        return launch_slurm(settings, words, preflight=check)
    return 0


def _job(settings: Settings, words: Sequence[str]) -> SlurmJob:
    """The job as a value, its own notes told."""
    from trainwright.launch.slurm_job import render_slurm

    job = render_slurm(settings, words, now=datetime.now(UTC), token=secrets.token_hex(2))
    for note in job.notes:
        _say(note)
    return job


def _print_settings(settings: Settings) -> None:
    from trainwright.launch.settings import show

    print(show(settings))


def _command(job: SlurmJob) -> str:
    from trainwright.launch.quoting import bash_quote

    line = " ".join(map(bash_quote, job.command))
    return f"each of the {job.nodes * job.tasks_per_node} tasks runs, in the container:\n  {line}"


def _say(message: str) -> None:
    from trainwright.launch.errors import on_one_line

    print(f"trainwright launch: {on_one_line(message)}", file=sys.stderr)
