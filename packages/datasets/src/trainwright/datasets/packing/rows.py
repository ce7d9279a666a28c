"""Sequences one after the other in one row, as attention on packed rows (THD) reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from trainwright.datasets.tokenizers import Tokenizer


def padding_id(tokenizer: Tokenizer) -> int:
    """The id that fills up rows: the tokenizer's padding, or its end of document where it has none."""
    return tokenizer.pad if tokenizer.pad >= 0 else tokenizer.eod


def packed_row(
    sequences: Sequence[Mapping[str, Any]], *, alignment: int, pad: int, size: int | None = None
) -> dict[str, torch.Tensor]:
    """One row of T tokens from sequences of `{tokens, labels, loss_mask}`, arrays or tensors of equal length each.

    Gives `{tokens, labels, position_ids: int64, loss_mask: float32}` of shape [1, T], `cu_seqlens: int32` of shape
    [segments + 1] and `max_seqlen: int32` of shape []. `cu_seqlens` holds where each segment begins and, last, T;
    positions count from 0 in each. A segment is a sequence and the padding that makes its length a multiple of
    `alignment`; padding has a loss mask of 0. T is the sum of the segments, or `size` tokens; those that no sequence
    takes are segments too, none longer than the longest sequence's: a model may have no positions beyond it.

    Raises:
        ValueError: the sequences do not fit `size`, or `size` is no multiple of `alignment`.
    """
    import numpy as np
    import torch

    lengths = np.array([len(sequence["tokens"]) for sequence in sequences], dtype=np.int64)
    bounds = np.concatenate(([0], np.cumsum(-(-lengths // alignment) * alignment)))
    if size is not None:
        if size % alignment or bounds[-1] > size:
            raise ValueError(f"{bounds[-1]} tokens in a row of {size}, aligned to {alignment}")
        longest = int(np.diff(bounds).max(initial=alignment))
        bounds = np.append(bounds, np.arange(bounds[-1] + longest, size + longest, longest)).clip(max=size)
    total = int(bounds[-1])
    row = {
        "tokens": np.full(total, pad, dtype=np.int64),
        "labels": np.full(total, pad, dtype=np.int64),
        "loss_mask": np.zeros(total, dtype=np.float32),
    }
    for begin, length, sequence in zip(bounds.tolist(), lengths.tolist(), sequences, strict=False):
        for name, values in row.items():
            values[begin : begin + length] = sequence[name]
    segments = np.diff(bounds)
    row["position_ids"] = np.arange(total) - np.repeat(bounds[:-1], segments)
    return {name: torch.from_numpy(values)[None] for name, values in row.items()} | {
        "cu_seqlens": torch.from_numpy(bounds.astype(np.int32)),
        "max_seqlen": torch.tensor(int(segments.max(initial=0)), dtype=torch.int32),
    }
