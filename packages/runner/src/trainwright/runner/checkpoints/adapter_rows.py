"""The small matrices of an adapter's part, and which rows of its layer they add to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from trainwright.recipes.adapters import Linear
    from trainwright.recipes.config.model import ModelConfig


@dataclass(frozen=True)
class Factors:
    """What a part adds is `alpha / dim * b @ a`. Of stacked experts both have them in a first dimension."""

    a: Tensor
    """[..., dim, columns]"""
    b: Tensor
    """[..., rows, dim]"""
    magnitude: Tensor | None = None
    """[..., rows], of DoRA: the length that each row of the weight gets."""


def part_rows(linear: Linear, part: str, model: ModelConfig) -> Tensor:
    """Which rows of the layer the rows of a part are, in their order.

    Queries, keys and values are fused by key/value group: the group's queries, its key, its value. A gated unit has
    the gate's rows first.
    """
    rows = torch.arange(linear.rows)
    if part == linear.name:
        return rows
    if linear.name == "linear_fc1":
        return rows.chunk(2)[("linear_fc1_gate", "linear_fc1_up").index(part)]
    groups, channels = int(model.num_query_groups or 0), int(model.kv_channels or 0)
    queries, keys, values = rows.view(groups, -1).split([linear.rows // groups - 2 * channels, channels, channels], 1)
    return {"linear_q": queries, "linear_k": keys, "linear_v": values}[part].flatten()
