"""The layout of a sequence over context parallel ranks, and the gathering of it.

Megatron Core cuts a sequence into 2 * ranks equal chunks and gives rank r the chunks r and 2 * ranks - 1 - r, so that
causal attention costs every rank the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed import ProcessGroup


def local_positions(length: int, group: ProcessGroup, device: torch.device) -> Tensor:
    """True positions in the sequence of a rank's `length` tokens, in the order in which the rank holds them."""
    ranks, rank = group.size(), group.rank()
    if ranks == 1:
        return torch.arange(length, device=device)
    if length % 2:
        raise ValueError(f"a sequence of {length * ranks} tokens does not divide into 2 * {ranks} equal chunks")
    chunk = torch.arange(length // 2, device=device)
    return torch.cat([chunk + rank * len(chunk), chunk + (2 * ranks - 1 - rank) * len(chunk)])


def gather_sequence(x: Tensor, group: ProcessGroup) -> Tensor:
    """The whole sequence in natural order, [sequence, ...], from each rank's part of it."""
    gathered: Tensor = _GatherSequence.apply(x, group)
    return gathered


class _GatherSequence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(group.size())]
        torch.distributed.all_gather(parts, x.contiguous(), group=group)
        halves = [part.chunk(2) for part in parts]
        return torch.cat([first for first, _ in halves] + [second for _, second in reversed(halves)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        # Every rank's queries looked at this rank's tokens: their gradients add up.
        total = gradients[0].contiguous()
        torch.distributed.all_reduce(total, group=ctx.group)
        chunks = total.chunk(2 * ctx.group.size())
        rank = ctx.group.rank()
        return torch.cat([chunks[rank], chunks[-1 - rank]]), None
