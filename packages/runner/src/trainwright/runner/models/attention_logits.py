"""The largest logit of each attention head, for clipping and for the log."""

from __future__ import annotations

import torch
from torch import Tensor

ROWS = 512
"""Queries whose logits are in memory at once."""


@torch.no_grad()
def largest_logits(query: Tensor, key: Tensor, scale: float, mask: Tensor | None) -> Tensor:
    """What the softmax of a head sees at most, over all queries and the keys that each may look at.

    Args:
        query: [batch, heads, queries, channels].
        key: [batch, groups, keys, channels]; consecutive heads share a group.
        scale: of the products of the two.
        mask: [queries, keys], true where a query may look; null means up to its own place.

    Returns a float32 tensor [heads]. Sinks are no product of a query and a key, and do not count.
    """
    batch, heads, queries, channels = query.shape
    groups, keys = key.size(1), key.size(2)
    # Heads of a group are one long matrix, so that its keys are not copied for each of them.
    grouped = query.float().view(batch, groups, heads // groups, queries, channels)
    across = key.float().transpose(-1, -2)
    largest = torch.full((heads,), -torch.inf, device=query.device)
    for begin in range(0, queries, ROWS):
        end = min(begin + ROWS, queries)
        seen = end if mask is None else keys  # later keys are hidden from all these queries
        logits = (grouped[..., begin:end, :].flatten(2, 3) @ across[..., :seen]).view(batch, heads, end - begin, seen)
        if mask is None:
            visible = torch.ones(end - begin, seen, dtype=torch.bool, device=query.device).tril(begin)
        else:
            visible = mask[begin:end]
        largest = torch.maximum(largest, logits.masked_fill_(~visible, -torch.inf).amax(dim=(0, 2, 3)) * scale)
    return largest
