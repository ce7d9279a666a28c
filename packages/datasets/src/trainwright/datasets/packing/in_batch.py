"""In-batch packing: the sequences of a micro-batch in one row, when it is collated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainwright.datasets.packing.rows import packed_row

if TYPE_CHECKING:
    import torch


def pack_batch(
    samples: Sequence[Mapping[str, Any]], padding: int, *, length: int | None, multiple: int
) -> dict[str, torch.Tensor]:
    """One row of all samples, in their order, each padded to a `multiple`; see `rows.packed_row`.

    The row ends with the last sample, or after `length` tokens for each sample where lengths are fixed.
    """
    size = None if length is None else length * len(samples)
    return packed_row(samples, alignment=multiple, pad=padding, size=size)
