"""The order of samples: the written formula, for every division and from every point."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.datasets import DataError, build_loader
from trainwright.recipes.config import ConfigContainer


class Numbers:
    """A dataset whose sample k is the number k."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> dict[str, Any]:
        import torch

        if not 0 <= index < self.size:
            raise IndexError(index)
        tokens = torch.full((4,), index)
        return {"tokens": tokens, "labels": tokens + 1, "loss_mask": torch.ones(4), "position_ids": torch.arange(4)}


def rank_order(config: ConfigContainer, size: int, *, consumed: int, rank: int, ranks: int) -> list[list[int]]:
    """Samples of each micro-batch of one rank, of at most 40."""
    loader = build_loader(
        Numbers(size),  # type: ignore[arg-type]
        config,
        consumed_samples=consumed,
        data_parallel_rank=rank,
        data_parallel_size=ranks,
        micro_batch_size=config.train.micro_batch_size,
    )
    return [batch["tokens"][:, 0].tolist() for batch in itertools.islice(loader, 40)]


def sizes(micro: int, per_rank: int, ranks: int) -> dict[str, int]:
    return {"train_iters": 1, "global_batch_size": micro * per_rank * ranks, "micro_batch_size": micro}


@given(data=st.data(), ranks=st.sampled_from([1, 2, 4]), micro=st.integers(1, 3), per_rank=st.integers(1, 3))
def test_every_rank_gets_the_samples_of_the_formula_from_every_point(
    make_config: Any, data: st.DataObject, ranks: int, micro: int, per_rank: int
) -> None:
    """Micro-batch m of rank r in global batch g: g*GBS + m*(MBS*DP) + r*MBS + [0, MBS)."""
    config = make_config(train=sizes(micro, per_rank, ranks))
    global_batch = config.train.global_batch_size
    size = data.draw(st.integers(global_batch, 5 * global_batch))
    done = data.draw(st.integers(0, 5))
    for rank in range(ranks):
        expected = [
            [g * global_batch + m * micro * ranks + rank * micro + i for i in range(micro)]
            for g in range(done, size // global_batch)
            for m in range(per_rank)
        ]
        got = rank_order(config, size, consumed=done * global_batch, rank=rank, ranks=ranks)
        assert got == expected[:40]


@given(done=st.integers(0, 12), kind=st.sampled_from(["single", "cyclic"]), size=st.integers(24, 60))
def test_a_global_batch_is_the_same_set_however_it_is_divided(
    make_config: Any, done: int, kind: str, size: int
) -> None:
    """Data parallelism 1, 2 and 4, any micro-batch: what the optimizer sees does not change."""
    seen = []
    for ranks, micro in [(1, 1), (1, 12), (2, 3), (4, 3), (4, 1)]:
        config = make_config(
            train={"train_iters": 1, "global_batch_size": 12, "micro_batch_size": micro}, dataloader_type=kind
        )
        rows = [rank_order(config, size, consumed=12 * done, rank=rank, ranks=ranks) for rank in range(ranks)]
        first = 12 // (micro * ranks)
        seen.append(sorted(sample for row in rows for batch in row[:first] for sample in batch))
    assert all(batch == seen[0] for batch in seen)
    assert len(seen[0]) == (12 if kind == "cyclic" or 12 * (done + 1) <= size else 0)


@given(size=st.integers(1, 30), consumed=st.integers(0, 90))
def test_cyclic_reads_every_sample_once_an_epoch_and_resumes_anywhere(
    make_config: Any, size: int, consumed: int
) -> None:
    """Also with a corpus smaller than one global batch, and with an epoch that ends inside one."""
    config = make_config(train=sizes(1, 1, 1), dataloader_type="cyclic")
    whole = [batch[0] for batch in itertools.chain(rank_order(config, size, consumed=0, rank=0, ranks=1))]
    for epoch in range(40 // size):
        assert sorted(whole[epoch * size : (epoch + 1) * size]) == list(range(size))
    resumed = rank_order(config, size, consumed=consumed, rank=0, ranks=1)
    if consumed < 40:
        assert [batch[0] for batch in resumed][: 40 - consumed] == whole[consumed:]


def test_cyclic_shuffles_each_epoch_anew_from_the_seed(make_config: Any) -> None:
    def epochs(seed: int) -> list[list[int]]:
        config = make_config(train=sizes(20, 1, 1), dataloader_type="cyclic", random_seed=seed)
        return rank_order(config, 20, consumed=0, rank=0, ranks=1)[:3]

    assert epochs(1) == epochs(1)
    assert len({tuple(order) for order in epochs(1) + epochs(2)}) == 6


def test_the_shuffle_is_the_same_in_every_version(make_config: Any) -> None:
    """A run that resumes after an upgrade goes on in its order. numpy freezes RandomState's streams."""
    config = make_config(train=sizes(8, 1, 1), dataloader_type="cyclic", random_seed=1234)
    assert rank_order(config, 8, consumed=8, rank=0, ranks=1)[0] == [5, 7, 1, 3, 4, 2, 0, 6]


def test_worker_processes_keep_the_order(make_config: Any) -> None:
    rows = [
        rank_order(make_config(train=sizes(2, 2, 2), num_workers=workers), 33, consumed=8, rank=1, ranks=2)
        for workers in (0, 2)
    ]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 6


def test_a_loader_leaves_the_random_numbers_of_the_run_alone(make_config: Any) -> None:
    """Else dropout after a resume would differ from dropout without one."""
    import torch

    before = torch.get_rng_state()
    rank_order(make_config(train=sizes(1, 1, 1)), 8, consumed=0, rank=0, ranks=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_batches_have_the_shapes_and_types_that_training_takes(make_config: Any) -> None:
    import torch

    loader = build_loader(
        Numbers(8),
        make_config(),
        consumed_samples=0,
        data_parallel_rank=0,
        data_parallel_size=1,
        micro_batch_size=2,  # type: ignore[arg-type]
    )
    batch = next(loader)
    assert {key: (value.shape, value.dtype) for key, value in batch.items()} == {
        "tokens": ((2, 4), torch.int64),
        "labels": ((2, 4), torch.int64),
        "loss_mask": ((2, 4), torch.float32),
        "position_ids": ((2, 4), torch.int64),
    }


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            {"ranks": 3},
            "train.global_batch_size=8 is not a multiple of train.micro_batch_size=2 x data parallel size 3",
        ),
        ({"rank": 1}, r"data parallel rank 1 is not in 0\.\.0"),
        ({"consumed": -1}, "consumed_samples is -1"),
        ({"size": 7}, "holds 7 samples, fewer than train.global_batch_size=8"),
    ],
)
def test_what_cannot_be_divided_is_refused(make_config: Any, words: dict[str, int], says: str) -> None:
    with pytest.raises(DataError, match=says):
        rank_order(make_config(), words.pop("size", 8), **({"consumed": 0, "rank": 0, "ranks": 1} | words))
