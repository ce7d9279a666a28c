"""The words of `run-recipe`, in commands that look at the data of the run that they stand for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from trainwright.recipes.words import Command, UsageError, parse
from trainwright_trainer.process import auto_device, requested_world_size

if TYPE_CHECKING:
    from trainwright.recipes import ConfigContainer, ResolvedRun

Split = Literal["train", "valid", "test"]

RUN_WORDS: dict[str, Any] = {"ignore_unknown_options": True}
"""Settings of a command that hands flags it does not know to `run_of`."""
Words = Annotated[
    list[str],
    typer.Argument(
        metavar="WORD", help="What run-recipe is given: --recipe, --dataset, flags, KEY=VALUE. WORLD_SIZE=N: N ranks."
    ),
]


def run_of(words: Sequence[str]) -> ResolvedRun:
    """The run that `run-recipe` makes of the same words.

    As with its `--dry-run`, `WORLD_SIZE` says for how many ranks; by default those that the recipe was written for.

    Raises:
        UsageError: words that make no sense here.
        ConfigError: words that make no run.
    """
    from trainwright.recipes import resolve

    command = parse(words)
    for name, given in (("--dry-run", command.dry_run), ("--dump-env", command.dump_env)):
        if given:
            raise UsageError(f"{name} is for run-recipe; leave it out")
    resolved = resolve(
        command.selection,
        command.overrides,
        world_size=requested_world_size(),
        device=auto_device() if command.device == "auto" else command.device,
        flags=command.flags,
        deterministic=command.deterministic,
    )
    for warning in (*resolved.warnings, *_of_another_device(command, resolved)):
        print(f"trainwright-data: warning: {warning}", file=sys.stderr)
    return resolved


def _of_another_device(command: Command, resolved: ResolvedRun) -> list[str]:
    """Whether the same words shape the data otherwise on a GPU, which this machine may be without."""
    from trainwright.recipes import ConfigError, resolve

    if command.device != "auto" or resolved.device == "cuda":
        return []
    try:
        there = resolve(
            command.selection, command.overrides, world_size=requested_world_size(), device="cuda", flags=command.flags
        ).config.dataset
    except ConfigError:
        return []
    here = resolved.config.dataset
    if (there.seq_length, there.offline_packing_specs) == (here.seq_length, here.offline_packing_specs):
        return []
    return ["this machine has no GPU, and on one the same words pad sequences otherwise: give --device cuda for that"]


def refuse_split(config: ConfigContainer, split: Split) -> None:
    """Raises UsageError for a part of the data that these words leave unread."""
    for name, field in (("valid", "do_validation"), ("test", "do_test")):
        if split == name and not getattr(config.dataset, field):
            raise UsageError(f"--split {split}: dataset.{field} is false; add dataset.{field}=true")
