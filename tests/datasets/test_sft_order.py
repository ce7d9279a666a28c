"""From places to samples: the formula, epochs, and shares of sources."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.datasets import DataError
from trainwright.datasets.sft.order import blended, epochs, one_pass, usable_samples


@given(size=st.integers(1, 40), seed=st.integers(0, 2**31), passes=st.integers(1, 4))
def test_an_epoch_holds_every_sample_once(size: int, seed: int, passes: int) -> None:
    order = epochs(size, seed)
    for epoch in range(passes):
        assert sorted(order(epoch * size + place) or 0 for place in range(size)) == list(range(size))


def test_the_order_is_the_same_in_every_version() -> None:
    """Worked out once with numpy's frozen RandomState, from (seed, epoch)."""
    order = epochs(8, 1234)
    assert [order(place) for place in range(8, 16)] == [5, 7, 1, 3, 4, 2, 0, 6]


@given(size=st.integers(1, 40), batch=st.integers(1, 12))
def test_drop_last_leaves_out_what_fills_no_batch_and_other_samples_each_time(size: int, batch: int) -> None:
    if size < batch:
        with pytest.raises(DataError, match=rf"holds {size} samples, fewer than train.global_batch_size={batch}"):
            usable_samples(size, batch, drop_last=True)
        return
    usable = usable_samples(size, batch, drop_last=True)
    assert (usable % batch, usable > size - batch) == (0, True)
    order = epochs(size, 1, usable=usable)
    for epoch in range(3):
        assert len({order(epoch * usable + place) for place in range(usable)}) == usable


def test_without_drop_last_a_batch_goes_on_with_the_next_epoch() -> None:
    assert usable_samples(5, 4, drop_last=False) == 5


def test_one_pass_gives_each_sample_in_its_place_and_then_places_to_fill() -> None:
    assert [one_pass(3)(place) for place in range(5)] == [0, 1, 2, None, None]


weights = st.lists(st.floats(0.01, 100), min_size=1, max_size=5)


@given(weights=weights, places=st.integers(1, 400))
def test_each_source_has_its_share_at_every_moment(weights: list[float], places: int) -> None:
    """Give or take (sources - 1) / 2."""
    sizes = [7] * len(weights)
    order = blended(sizes, weights, seed=1)
    drawn = Counter((order(place) or 0) // 7 for place in range(places))
    for source, weight in enumerate(weights):
        assert abs(drawn[source] - places * weight / sum(weights)) <= (len(weights) - 1) / 2 + 1e-6


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4), data=st.data())
def test_each_source_is_read_in_epochs_of_its_own(sizes: list[int], data: st.DataObject) -> None:
    """Every sample once before any comes again, whatever the weights."""
    shares = data.draw(st.lists(st.floats(0.1, 10), min_size=len(sizes), max_size=len(sizes)))
    order = blended(sizes, shares, seed=3)
    drawn = [order(place) or 0 for place in range(300)]
    begin = 0
    for size in sizes:
        own = [sample - begin for sample in drawn if begin <= sample < begin + size]
        for epoch in range(len(own) // size):
            assert sorted(own[epoch * size : (epoch + 1) * size]) == list(range(size))
        begin += size


def test_a_place_is_found_without_those_before_it() -> None:
    """A run resumes at a place in the billions as quickly as at the first."""
    order = blended([1000, 1000, 1000], [0.5, 0.3, 0.2], seed=1)
    assert order(3_000_000_000) == blended([1000, 1000, 1000], [0.5, 0.3, 0.2], seed=1)(3_000_000_000)
    assert epochs(1000, 1)(3_000_000_007) == epochs(1000, 1)(3_000_000_007)
