"""Statistics and the window they are over, each against a second way to compute it."""

import statistics
from itertools import pairwise

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report_schema.sample_report import CONFIG, step

from trainwright.report_schema import TrainingConfig, TrainingStep
from trainwright.report_schema.aggregate import aggregate, metric_stats
from trainwright.report_schema.ranges import as_ranges, ranges_text
from trainwright.report_schema.window import select_window

NUMBERS = st.floats(-1e12, 1e12)


@given(st.lists(NUMBERS, min_size=1, max_size=60))
def test_statistics_are_those_of_numpy_and_the_standard_library(values: list[float]) -> None:
    """Mean, extremes, population deviation, and percentiles by linear interpolation."""
    stats = metric_stats(values)
    scale = 1e-12 * max(1.0, max(map(abs, values)))
    assert stats.mean == pytest.approx(statistics.mean(values), abs=scale)
    assert stats.std == pytest.approx(statistics.pstdev(values), abs=scale)
    assert (stats.min, stats.max) == (min(values), max(values))
    assert [stats.t99, stats.t95] == pytest.approx(list(numpy.percentile(values, [99, 95])), abs=scale)
    if len(values) > 1:
        cuts = statistics.quantiles(values, n=100, method="inclusive")
        assert [stats.t99, stats.t95] == pytest.approx([cuts[98], cuts[94]], abs=scale)


def test_one_value_has_no_deviation() -> None:
    """Its percentiles are itself."""
    stats = metric_stats([7.0])
    assert (stats.mean, stats.std, stats.t95, stats.t99) == (7.0, 0.0, 7.0, 7.0)


def test_known_percentiles() -> None:
    """As the schema's authors compute them."""
    assert (metric_stats(range(1, 101)).t99, metric_stats(range(1, 101)).t95) == pytest.approx((99.01, 95.05))
    assert (metric_stats([1, 2]).t99, metric_stats([1, 2]).t95) == pytest.approx((1.99, 1.95))


def test_throughput_is_over_the_steps_that_have_it() -> None:
    """The other metrics are over all of them."""
    steps = [TrainingStep(**step(1, tflops_per_gpu=None)), TrainingStep(**step(2)), TrainingStep(**step(3, loss=4.0))]
    found = aggregate(steps)
    assert found is not None and found.tflops_per_gpu is not None
    assert (found.tflops_per_gpu.mean, found.loss.max) == (400.0, 4.0)


def test_no_step_no_statistics() -> None:
    """An empty window has none."""
    assert aggregate([]) is None


def steps(iterations: range | list[int]) -> list[TrainingStep]:
    return [TrainingStep(**step(i)) for i in iterations]


@pytest.mark.parametrize(
    ("iterations", "config", "options", "kept"),
    [
        (range(1, 11), {}, {}, [6, 7, 8, 9, 10]),
        (range(1, 4), {}, {}, []),
        (range(1, 4), {"exclude_start_steps": 0}, {}, [1, 2, 3]),
        # By position: iteration 1 is no step, and does not count.
        (range(2, 9), {}, {}, [7, 8]),
        # Every tenth iteration: five steps are fifty iterations.
        ([10 * i for i in range(1, 8)], {}, {}, [60, 70]),
        # The profiler's iterations, both ends included, and two more.
        (
            range(1, 20),
            {"profiling_enabled": True, "profiling_start_step": 10, "profiling_stop_step": 12},
            {},
            [6, 7, 8, 9, 15, 16, 17, 18, 19],
        ),
        (range(1, 8), {"profiling_enabled": True, "profiling_start_step": 6, "profiling_stop_step": None}, {}, [6, 7]),
        (range(1, 8), {"profiling_enabled": False, "profiling_start_step": 6, "profiling_stop_step": 7}, {}, [6, 7]),
        (range(1, 13), {}, {"segment_starts": [0, 8], "exclude_after_restart": 2}, [6, 7, 8, 11, 12]),
        (range(1, 13), {}, {"segment_starts": [0, 8], "exclude_after_restart": 99}, [6, 7, 8]),
        (range(1, 13), {}, {"segment_starts": [0, 0, 8], "exclude_after_restart": 1}, [6, 7, 8, 10, 11, 12]),
    ],
)
def test_window(iterations, config, options, kept: list[int]) -> None:
    """Start by position, restarts by position in their segment, profiling by iteration."""
    window, described = select_window(steps(iterations), TrainingConfig(**{**CONFIG, **config}), **options)
    assert [one.iteration for one in window] == kept
    assert described.steps == len(kept)
    assert described.steps + sum(one.count for one in described.excluded) == len(iterations)


@given(st.lists(st.integers(-50, 50)))
def test_ranges_cover_exactly_their_numbers(numbers: list[int]) -> None:
    """Ascending, apart from each other, nothing more and nothing less."""
    ranges = as_ranges(numbers)
    assert [i for first, last in ranges for i in range(first, last + 1)] == sorted(set(numbers))
    assert all(earlier[1] + 1 < later[0] for earlier, later in pairwise(ranges))


def test_long_lists_of_ranges_are_cut() -> None:
    """A line stays a line."""
    assert ranges_text(as_ranges([1, 2, 3, 9])) == "1-3, 9"
    assert ranges_text(as_ranges(range(0, 100, 2))) == "0, 2, 4, 6, 8, ..."
