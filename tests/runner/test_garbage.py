"""When Python collects garbage while it trains."""

import gc
from collections.abc import Iterator

import pytest

from trainwright.recipes.config.training import TrainConfig
from trainwright.runner.garbage import collect, collected_together


@pytest.fixture
def collections() -> Iterator[list[int]]:
    """Generations that were collected, in order."""
    seen: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            seen.append(info["generation"])

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


def config(*, manual: bool) -> TrainConfig:
    return TrainConfig(train_iters=10, global_batch_size=1, micro_batch_size=1, manual_gc=manual, manual_gc_interval=3)


def test_nothing_is_collected_but_at_every_so_many_updates(collections: list[int]) -> None:
    with collected_together(config(manual=True)):
        collections.clear()
        due = []
        for update in range(1, 10):
            garbage = [[] for _ in range(20_000)]
            garbage.append(garbage)
            collect(config(manual=True), update)
            due += [update] * len(collections)
            collections.clear()
    assert due == [3, 6, 9]


def test_python_collects_by_itself_again_afterwards() -> None:
    with pytest.raises(KeyError), collected_together(config(manual=True)):
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def test_otherwise_it_is_left_to_python(collections: list[int]) -> None:
    with collected_together(config(manual=False)):
        assert gc.isenabled()
        collections.clear()
        collect(config(manual=False), 3)
    assert collections == []
