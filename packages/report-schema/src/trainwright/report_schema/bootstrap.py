"""How sure a difference of two means is: the bootstrap over blocks of consecutive steps."""

import math
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import NormalDist, fmean, stdev

CONFIDENCE = 0.95
"""Level of the intervals."""

_RESAMPLES = 1000
_MAX_BLOCKS = 200


def interval(
    samples: Sequence[Sequence[float]], statistic: Callable[..., float], *, confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Interval of a statistic of the samples' means; the same samples always give the same.

    Neighbouring steps resemble each other, so blocks of consecutive steps are drawn, not single ones: of about the
    cube root of the sample's length (the rate for the block bootstrap of a mean; Künsch 1989, Hall et al. 1995). There
    are few blocks then, so the interval is Student's t over the bootstrap's standard error, widened for the number of
    blocks (Hesterberg 2015, "What teachers should know about the bootstrap"), rather than the draws' percentiles.

    Args:
        samples: each at least one value, in time order; they are drawn independently of each other.
        statistic: of the samples' means, one argument each.
        confidence: the interval's level.

    Returns:
        Both ends; ``None`` where a sample is too short to tell how much it varies.
    """
    blocks = [_block_means(sample) for sample in samples]
    fewest = min(map(len, blocks))
    if fewest < 2:
        return None
    generator = random.Random(0)
    drawn = [statistic(*(fmean(generator.choices(means, k=len(means))) for means in blocks)) for _ in range(_RESAMPLES)]
    error = stdev(drawn) * math.sqrt(fewest / (fewest - 1))
    reach = _student_quantile((1 + confidence) / 2, fewest - 1) * error
    centre = statistic(*map(fmean, samples))
    return centre - reach, centre + reach


def _block_means(sample: Sequence[float]) -> list[float]:
    """Means of consecutive blocks of nearly equal length."""
    length = max(round(len(sample) ** (1 / 3)), math.ceil(len(sample) / _MAX_BLOCKS))
    count = max(1, len(sample) // length)
    edges = [len(sample) * index // count for index in range(count + 1)]
    return [fmean(sample[start:end]) for start, end in pairwise(edges)]


def _student_quantile(probability: float, freedom: int) -> float:
    """Quantile of Student's t, expanded about the normal one (Abramowitz and Stegun 26.7.5)."""
    z = NormalDist().inv_cdf(probability)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
