"""The gathering of a row of tokens over context parallel ranks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed import ProcessGroup

from trainwright.runner.layout import Bounds, held_places, natural_order


def gather_row(x: Tensor, bounds: Bounds, group: ProcessGroup) -> Tensor:
    """The whole row in its own order, [row, ...], from each rank's part of it, [row / ranks, ...]."""
    gathered: Tensor = _GatherRow.apply(x, bounds, group)
    return gathered


class _GatherRow(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bounds: Bounds, group: ProcessGroup) -> Tensor:
        ctx.group, ctx.bounds = group, bounds
        parts = x.new_empty((group.size(), *x.shape))
        torch.distributed.all_gather(list(parts.unbind()), x.contiguous(), group=group)
        return parts.flatten(0, 1).index_select(0, natural_order(bounds, group.size()).to(x.device))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        # Every rank's queries looked at this rank's tokens: their gradients add up.
        total = gradients[0].contiguous()
        torch.distributed.all_reduce(total, group=ctx.group)
        held = held_places(ctx.bounds, ctx.group.rank(), ctx.group.size())
        return total.index_select(0, held.to(total.device)), None, None
