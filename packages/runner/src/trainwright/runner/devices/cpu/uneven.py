"""Collectives of parts of different lengths, which gloo lacks; split experts get as many tokens as chose them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def gather(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`_gather_along_first_dim`: parts are padded to the longest on the way."""

    def apply(input_: Tensor, group: Any, output_split_sizes: Any = None, use_global_buffer: bool = False) -> Tensor:
        if output_split_sizes is None or group.size() == 1:
            return original(input_, group, output_split_sizes, use_global_buffer)
        sizes = [int(size) for size in output_split_sizes]
        padded = F.pad(input_, (*(0, 0) * (input_.dim() - 1), 0, max(sizes) - input_.size(0))).contiguous()
        parts = [torch.empty_like(padded) for _ in sizes]
        torch.distributed.all_gather(parts, padded, group=group)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    return apply


def reduce_scatter(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`_reduce_scatter_along_first_dim`: everything is summed, and each rank keeps its part."""

    def apply(input_: Tensor, group: Any, input_split_sizes: Any = None, use_global_buffer: bool = False) -> Tensor:
        if input_split_sizes is None or group.size() == 1:
            return original(input_, group, input_split_sizes, use_global_buffer)
        total = input_.clone()
        torch.distributed.all_reduce(total, group=group)
        return total.split([int(size) for size in input_split_sizes])[group.rank()].clone()

    return apply
