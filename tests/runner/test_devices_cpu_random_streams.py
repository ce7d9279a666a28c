"""Parallel random streams on one CPU generator."""

import pytest
import torch

from trainwright.runner.devices import use_device

device = use_device("cpu")


@pytest.fixture
def tracker():
    from megatron.core.tensor_parallel.random import CudaRNGStatesTracker

    device.seed(1)
    made = CudaRNGStatesTracker()
    made.add("split", 2)
    made.add("other", 3)
    return made


def draw() -> float:
    return torch.rand(1).item()


def test_a_fork_draws_from_its_own_stream_and_leaves_the_outer_one(tracker):
    expected = [torch.rand(3, generator=torch.Generator().manual_seed(seed)).tolist() for seed in (1, 2)]
    outer, inner = [draw()], []
    for _ in range(2):
        with tracker.fork("split"):
            inner.append(draw())
        outer.append(draw())
    assert outer == expected[0]
    assert inner == expected[1][:2]


def test_adding_a_stream_draws_nothing():
    from megatron.core.tensor_parallel.random import CudaRNGStatesTracker

    device.seed(1)
    expected = draw()
    device.seed(1)
    CudaRNGStatesTracker().add("split", 2)
    assert draw() == expected


def test_a_fork_inside_a_fork_goes_on_with_the_right_streams(tracker):
    split, other = (torch.rand(4, generator=torch.Generator().manual_seed(seed)).tolist() for seed in (2, 3))
    drawn: dict[str, list[float]] = {"split": [], "other": []}
    with tracker.fork("split"):
        drawn["split"].append(draw())
        with tracker.fork("other"):
            drawn["other"].append(draw())
            with tracker.fork("split"):
                drawn["split"].append(draw())
            drawn["other"].append(draw())
        drawn["split"].append(draw())
    assert drawn == {"split": split[:3], "other": other[:2]}


def test_an_error_inside_a_fork_restores_the_outer_stream(tracker):
    expected = torch.rand(1, generator=torch.Generator().manual_seed(1)).item()
    with pytest.raises(ValueError, match="inside"), tracker.fork("split"):
        draw()
        raise ValueError("inside")
    assert draw() == expected


def test_an_unknown_stream_is_refused_by_name(tracker):
    with pytest.raises(KeyError, match="'nowhere' is not seeded; known: split, other"), tracker.fork("nowhere"):
        pass


def test_states_saved_and_set_again_repeat_the_draws(tracker):
    states = tracker.get_states()
    with tracker.fork("split"):
        first = draw()
    tracker.set_states(states)
    with tracker.fork("split"):
        assert draw() == first
