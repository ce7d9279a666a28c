"""A run made so small that this machine can rehearse it: every rule that makes it smaller, and what none can check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainwright.recipes.build import build_config
from trainwright.recipes.draft import Draft
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.selection import find
from trainwright.recipes.settle import settle
from trainwright.recipes.shrink.device import device
from trainwright.recipes.shrink.duration import SAVED, UPDATES, duration
from trainwright.recipes.shrink.grid import grid_of, reduced
from trainwright.recipes.shrink.layers import blocks
from trainwright.recipes.shrink.places import data, weights, writing
from trainwright.recipes.shrink.sizes import adapters, experts, heads, vocabulary, widths, window
from trainwright.recipes.shrink.smaller import Smaller
from trainwright.recipes.shrink.topology import batch, rows_folder, sequence, topology
from trainwright.recipes.validate import validate
from trainwright.recipes.validate.plan import Plan

if TYPE_CHECKING:
    from trainwright.recipes.pipeline import ResolvedRun

__all__ = ["SAVED", "UPDATES", "Rehearsal", "shrink"]

Rule = Callable[[Smaller], None]

# The grid before what it splits; the data before the sequences made of it, and those before what looks at them.
RULES: tuple[Rule, ...] = (
    weights,
    writing,
    topology,
    blocks,
    widths,
    heads,
    experts,
    adapters,
    data,
    vocabulary,
    sequence,
    window,
    batch,
    duration,
    device,
)


@dataclass(frozen=True)
class Rehearsal:
    """A run that this machine can do, and how it came from the one that it stands for."""

    run: ResolvedRun
    """On so many ranks, on the CPU."""
    full: ResolvedRun
    shrunk: dict[str, str]
    """What was made smaller -> a line about it."""
    unchecked: tuple[str, ...]
    """What the rehearsal therefore, or for want of GPUs, does not check."""
    rows: str | None
    """A folder for generated rows (`training.jsonl`, `validation.jsonl`), where the run reads such."""


def shrink(full: ResolvedRun, ranks: int, folder: str) -> Rehearsal:
    """Make `full` so small that `ranks` ranks of one machine run it in seconds, with as much of its structure as fits.

    What a user typed stays in force as far as it is no size; sizes are made smaller whoever set them. Pure: `folder`
    is only a name, of where the rehearsal is to read and write.

    Raises ConfigError for a number of ranks that the grid cannot be reduced to, and for words that no shrunk run can
    follow, such as weights to start from.
    """
    recipe = find(full.recipe)
    if recipe is None:
        raise ConfigError(f"{full.recipe}: no such recipe")
    if ranks > full.world_size:
        raise ConfigError(f"--ranks {ranks}: the run itself has {full.world_size}")
    draft = Draft(full.config)
    draft.sources.update(full.sources)
    whole = grid_of(full)
    smaller = Smaller(full, whole, reduced(whole, ranks), folder, draft)
    for rule in RULES:
        rule(smaller)
    settle(draft, recipe, ranks, device="cpu")
    config = build_config(draft.tree())
    validate(Plan(config, draft, ranks, "cpu", recipe))
    generated = config.dataset.dataset_root == rows_folder(smaller)
    return Rehearsal(
        run=replace(
            full,
            config=config,
            world_size=ranks,
            device="cpu",
            sources=dict(draft.sources),
            canonical=False,
            known_invalid=None,
        ),
        full=full,
        shrunk=smaller.shrunk,
        unchecked=tuple(dict.fromkeys(smaller.unchecked)),
        rows=rows_folder(smaller) if generated else None,
    )
