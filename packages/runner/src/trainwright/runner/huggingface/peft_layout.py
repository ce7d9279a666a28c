"""Where the rows of our linear layers are in the modules of transformers, to which PEFT's adapters belong.

It follows from the rules by which weights are joined: whatever view makes a row of ours out of a row of theirs says
where that row is.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from trainwright.recipes.adapters import Linear, linears
from trainwright.runner.checkpoints.adapter import weight_of

if TYPE_CHECKING:
    from trainwright.recipes.config.model import ModelConfig
    from trainwright.runner.huggingface.family import Family
    from trainwright.runner.huggingface.rules import Rule

FUSED_BY_THEM = {("gate_proj", "up_proj"): "gate_up_proj", ("down_proj",): "down_proj"}
"""Published files keep an expert's matrices apart; transformers stacks them, for all experts of a block."""


@dataclass(frozen=True, eq=False)
class Theirs:
    """A module that PEFT adapts, or a parameter in which the experts of a block are stacked."""

    name: str
    rows: Tensor
    """Which rows of ours its rows are."""
    members: tuple[str, ...] = ()
    """Modules that the first expert has in published files, one after the other in `rows`; of a stack alone."""

    @property
    def module(self) -> str:
        """Its module; of a stack the one that holds it."""
        return self.name.rpartition(".")[0] if self.members else self.name


@dataclass(frozen=True, eq=False)
class Layer:
    """A linear layer on both sides."""

    linear: Linear
    weight: str
    """The parameter in a native checkpoint."""
    theirs: tuple[Theirs, ...]


def layers(family: Family, model: ModelConfig) -> list[Layer]:
    """Every linear layer of a model that transformers has too, in the order of `recipes.adapters.linears`.

    Blocks of multi-token prediction are not among them: transformers does not compute these.
    """
    rules: dict[str, Rule] = {}
    for rule in family.rules(model):
        rules.setdefault(rule.ours.name, rule)  # of experts the first one's
    found = []
    for linear in linears(model):
        weight = weight_of(linear)
        if linear.path.startswith("decoder."):
            found.append(Layer(linear, weight, _theirs(rules[weight])))
    return found


def _theirs(rule: Rule) -> tuple[Theirs, ...]:
    names = [slot.name.removesuffix(".weight") for slot in rule.theirs]
    rows = theirs_in_ours(rule)
    if rule.ours.count is None:
        return tuple(Theirs(name, each) for name, each in zip(names, rows, strict=True))
    if rule.theirs[0].count is not None:  # they publish a stack too
        return (Theirs(names[0], rows[0], (names[0],)),)
    experts = names[0].rpartition(".")[0].removesuffix(".0")
    fused = FUSED_BY_THEM[tuple(name.rpartition(".")[2] for name in names)]
    return (Theirs(f"{experts}.{fused}", torch.cat(rows), tuple(names)),)


def theirs_in_ours(rule: Rule) -> list[Tensor]:
    """For each tensor of theirs, which rows of ours its rows are; its columns, where inputs come first.

    Looks through the rule's views at tensors of places, which take no memory.
    """
    starts = [0, *accumulate(max(slot.shape) for slot in rule.theirs)]
    rows, columns = (
        rule.views([_places(slot.shape, along, start) for slot, start in zip(rule.theirs, starts, strict=False)])
        for along in (0, 1)
    )
    places = torch.cat([_outputs(*pair) for pair in zip(rows, columns, strict=True)])
    order = places.argsort()
    return list(order.split([int(((low <= places) & (places < high)).sum()) for low, high in pairwise(starts)]))


def _places(shape: tuple[int, ...], along: int, start: int) -> Tensor:
    numbers = torch.arange(start, start + shape[along])
    return (numbers[:, None] if along == 0 else numbers[None]).expand(*shape)


def _outputs(rows: Tensor, columns: Tensor) -> Tensor:
    """Where the rows of a view are: in rows of theirs or, where these change along ours, in columns."""
    turned = bool((rows[0] != rows[0, 0]).any() or (columns[:, 0] != columns[0, 0]).any())
    return columns[:, 0] if turned else rows[:, 0]
