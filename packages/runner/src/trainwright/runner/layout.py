"""Where the tokens of a row lie: its sequences, and the part of each that a context parallel rank holds.

A row is one sequence, or several packed one after the other. Its bounds say which: (0, ..., length of the row), each
sequence from one bound to the next.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor

Bounds = tuple[int, ...]


@lru_cache(maxsize=64)
def held_places(bounds: Bounds, rank: int, ranks: int) -> Tensor:
    """Places in the row of what a context parallel rank holds, in the order in which it holds it: int64 [row / ranks].

    Each sequence is cut into 2 * ranks equal pieces and rank r takes pieces r and 2 * ranks - 1 - r, so that under a
    causal mask every rank has the same amount of work. Megatron Core and Transformer Engine assume this order.

    Raises:
        ValueError: a sequence does not divide so.
    """
    pieces = []
    for begin, end in pairwise(bounds):
        piece, rest = divmod(end - begin, 2 * ranks)
        if ranks > 1 and rest:
            raise ValueError(f"a sequence of {end - begin} tokens does not divide into 2 * {ranks} equal pieces")
        if ranks == 1:
            pieces.append(torch.arange(begin, end))
            continue
        for number in (rank, 2 * ranks - 1 - rank):
            pieces.append(torch.arange(begin + number * piece, begin + (number + 1) * piece))
    return torch.cat(pieces)


@lru_cache(maxsize=64)
def natural_order(bounds: Bounds, ranks: int) -> Tensor:
    """What puts the parts of all ranks, one after the other, back into the row's own order: int64 [row]."""
    return torch.cat([held_places(bounds, rank, ranks) for rank in range(ranks)]).argsort()


@lru_cache(maxsize=64)
def held_positions(bounds: Bounds, rank: int, ranks: int) -> Tensor:
    """Positions within their own sequences of the tokens that a context parallel rank holds, int64 [row / ranks]."""
    starts = torch.cat([torch.full((end - begin,), begin) for begin, end in pairwise(bounds)])
    places = held_places(bounds, rank, ranks)
    return places - starts[places]
