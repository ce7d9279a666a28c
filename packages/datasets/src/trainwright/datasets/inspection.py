"""What a `.bin`/`.idx` pair holds, in a few numbers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from trainwright.datasets.errors import DataError
from trainwright.datasets.indexed import SMALL, IndexedPair, open_pair, token_range
from trainwright.datasets.provenance import read_provenance

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Inspection:
    """A pair that agrees with itself, and what its ids are."""

    pair: IndexedPair
    bytes_on_disk: int
    shortest: int
    longest: int
    """Tokens of a sequence."""
    lowest_id: int
    highest_id: int
    full: bool
    """Whether all ids were looked at, or some stretches."""
    provenance: dict[str, Any] | None


def inspect_pair(prefix: str, *, full: bool, vocab_size: int | None = None) -> Inspection:
    """Check a pair and count what it holds; `vocab_size` defaults to that of the tokenizer that made it, if known.

    Raises:
        DataError: the pair is broken, or an id is outside the vocabulary.
    """
    pair = open_pair(prefix)
    lengths = pair.lengths()
    low, high = token_range(pair, full=full)
    provenance = read_provenance(pair)
    if vocab_size is None and provenance is not None:
        vocab_size = provenance.get("vocab_size")
    if low < 0 or (vocab_size is not None and high >= vocab_size):
        allowed = f"0 to {vocab_size - 1}" if vocab_size is not None else "0 and up"
        raise DataError(f"{prefix}.bin holds token ids from {low} to {high}; the vocabulary is {allowed}")
    return Inspection(
        pair=pair,
        bytes_on_disk=sum(os.path.getsize(f"{prefix}{suffix}") for suffix in (".bin", ".idx")),
        shortest=int(lengths.min()),
        longest=int(lengths.max()),
        lowest_id=low,
        highest_id=high,
        full=full or pair.tokens <= SMALL,
        provenance=provenance,
    )


def documents(pair: IndexedPair, count: int) -> Iterator[np.ndarray]:
    """The ids of the first `count` documents."""
    ids, lengths = pair.token_ids(), pair.lengths()
    begin = 0
    for first, last in pairwise(pair.document_index()[: count + 1]):
        end = begin + int(lengths[first:last].sum(dtype="int64"))
        yield ids[begin:end]
        begin = end
