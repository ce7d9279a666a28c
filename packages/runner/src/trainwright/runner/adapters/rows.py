"""The output rows of a linear layer, and which of them belong to what is fused in it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Rows:
    """The rows of a layer that this rank holds: `groups` times over, so many of each name one after the other.

    A layer in which nothing is fused is one group of one name. In grouped queries each group has its queries, its key
    and its value; a gated feed-forward part is one group of two halves.
    """

    widths: dict[str, int]
    """Name -> rows of a group."""
    groups: int = 1

    def split(self, x: Tensor) -> dict[str, Tensor]:
        """Name -> its part of the last dimension of x, group after group."""
        if len(self.widths) == 1:
            return {name: x for name in self.widths}
        parts = x.unflatten(-1, (self.groups, -1)).split(list(self.widths.values()), dim=-1)
        return {name: part.flatten(-2) for name, part in zip(self.widths, parts, strict=True)}

    def join(self, parts: dict[str, Tensor]) -> Tensor:
        """What `split` took apart."""
        if len(self.widths) == 1:
            return next(iter(parts.values()))
        grouped = [parts[name].unflatten(-1, (self.groups, width)) for name, width in self.widths.items()]
        return torch.cat(grouped, dim=-1).flatten(-2)
