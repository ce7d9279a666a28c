"""From a place in the run to a sample: a pure function, so that a run resumes anywhere and no rank needs to be told.

Streams come from numpy's RandomState, which is frozen: a run that resumes after an upgrade goes on in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate
from math import lcm
from typing import TYPE_CHECKING

from trainwright.datasets.errors import DataError

if TYPE_CHECKING:
    import numpy as np

Order = Callable[[int], int | None]
"""Place -> sample; None: that place is to be filled up with a row that teaches nothing."""


def epochs(size: int, seed: int, *, usable: int | None = None) -> Order:
    """Place p -> the (p mod usable)-th sample of the permutation made from (seed, p div usable).

    `usable` below `size` leaves the last samples of each permutation out, other ones in each epoch.
    """
    usable = size if usable is None else usable
    permutation = _Permutations(size, seed)

    def sample(place: int) -> int:
        epoch, inner = divmod(place, usable)
        return int(permutation(epoch)[inner])

    return sample


def one_pass(size: int) -> Order:
    """Every sample once, as they stand; then places to fill up."""
    return lambda place: place if place < size else None


def blended(sizes: Sequence[int], weights: Sequence[float], seed: int) -> Order:
    """Sources in proportion to weights; samples are counted through all sources, the first one's from 0.

    After any number of places each source has had its share of them, give or take (sources - 1) / 2. Each source is
    read in epochs of its own: every one of its samples once, in a permutation made from (seed, source, epoch).
    """
    shares = _whole_numbers(weights)
    totals = list(accumulate(shares))
    firsts = [0, *accumulate(sizes)]
    permutations = [_Permutations(size, seed, source) for source, size in enumerate(sizes)]

    def sample(place: int) -> int:
        source, draw = _source_of(place, shares, totals)
        epoch, inner = divmod(draw, sizes[source])
        return firsts[source] + int(permutations[source](epoch)[inner])

    return sample


def usable_samples(size: int, global_batch_size: int, *, drop_last: bool) -> int:
    """Samples of one epoch: all, or whole global batches only.

    Raises:
        DataError: there is no whole global batch.
    """
    if not drop_last:
        return size
    if size < global_batch_size:
        raise DataError(
            f"the dataset holds {size} samples, fewer than train.global_batch_size={global_batch_size}: "
            "dataset.drop_last=true leaves none"
        )
    return size // global_batch_size * global_batch_size


class _Permutations:
    """The permutation of one epoch, kept while that epoch lasts."""

    def __init__(self, size: int, *seeds: int) -> None:
        self._size, self._seeds = size, seeds
        self._kept: tuple[int, np.ndarray] | None = None

    def __call__(self, epoch: int) -> np.ndarray:
        import numpy as np

        if self._kept is None or self._kept[0] != epoch:
            self._kept = (epoch, np.random.RandomState([*self._seeds, epoch]).permutation(self._size))
        return self._kept[1]


def _whole_numbers(weights: Sequence[float]) -> list[int]:
    """The same proportions, exactly: a float is a fraction."""
    fractions = [Fraction(weight) for weight in weights]
    scale = lcm(*(fraction.denominator for fraction in fractions))
    return [int(fraction * scale) for fraction in fractions]


def _source_of(place: int, shares: Sequence[int], totals: Sequence[int]) -> tuple[int, int]:
    """Whose turn it is, and how often that source has been drawn before.

    Of the first p places, the last source gets p x share / total, rounded; what is left is shared out among the
    others by the same rule. Both counts grow by at most one from place to place, so each place has one owner.
    """
    for source in range(len(shares) - 1, 0, -1):
        drawn = _rounded(place, shares[source], totals[source])
        if _rounded(place + 1, shares[source], totals[source]) > drawn:
            return source, drawn
        place -= drawn
    return 0, place


def _rounded(places: int, share: int, total: int) -> int:
    return (2 * places * share + total) // (2 * total)
