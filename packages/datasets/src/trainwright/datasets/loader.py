"""Micro-batches in an order that does not depend on how data parallelism divides it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from trainwright.datasets.errors import DataError
from trainwright.datasets.loader_workers import ignore_stop_signals, started
from trainwright.datasets.sft.build import RunDataset

if TYPE_CHECKING:
    import torch
    from torch.utils.data import Dataset

    from trainwright.recipes.config import ConfigContainer

BATCH_KEYS = ("tokens", "labels", "loss_mask", "position_ids")


def build_loader(
    dataset: Dataset[Any],
    config: ConfigContainer,
    *,
    consumed_samples: int,
    data_parallel_rank: int,
    data_parallel_size: int,
    micro_batch_size: int,
) -> Iterator[dict[str, torch.Tensor]]:
    """The micro-batches of one data parallel rank, from the sample after `consumed_samples` on.

    Each is `{tokens, labels, position_ids: int64, loss_mask: float32}`, all of shape [micro_batch, seq]; of packed rows
    [1, seq], with `cu_seqlens` and `max_seqlen` (`packing.rows.packed_row`).
    `single` ends when no whole global batch is left, on every rank after the same one; `cyclic` does not end.
    Rows (`RunDataset`) do not end either: training goes from epoch to epoch, and what is held out gives each row once
    and then rows without loss, so that the last global batch is whole.

    Raises:
        DataError: the sizes do not divide, or `single` has fewer samples than one global batch.
    """
    import torch
    from torch.utils.data import DataLoader

    if isinstance(dataset, RunDataset):
        return _rows(dataset, config, consumed_samples, data_parallel_rank, data_parallel_size, micro_batch_size)
    size = len(dataset)  # type: ignore[arg-type]
    cyclic = config.dataset.dataloader_type == "cyclic"
    global_batch_size = config.train.global_batch_size
    _check_sizes(global_batch_size, micro_batch_size, data_parallel_rank, data_parallel_size, consumed_samples)
    if size < (1 if cyclic else global_batch_size):
        raise DataError(f"the dataset holds {size} samples, fewer than train.global_batch_size={global_batch_size}")
    places = micro_batches(
        None if cyclic else size,
        consumed_samples=consumed_samples,
        global_batch_size=global_batch_size,
        micro_batch_size=micro_batch_size,
        data_parallel_rank=data_parallel_rank,
        data_parallel_size=data_parallel_size,
    )
    if cyclic:
        places = _shuffled(places, size, config.dataset.random_seed)
    workers = config.dataset.num_workers
    loader = DataLoader(
        dataset,
        batch_sampler=_Once(places),
        num_workers=workers,
        collate_fn=_collate,
        worker_init_fn=ignore_stop_signals if workers else None,
        # Its own generator: the loader would draw from the global one, and a resumed run's numbers would differ.
        generator=torch.Generator(),
    )
    return started(loader)


def _rows(
    dataset: RunDataset, config: ConfigContainer, consumed: int, rank: int, ranks: int, micro_batch_size: int
) -> Iterator[dict[str, torch.Tensor]]:
    from trainwright.datasets.sft.loading import row_batches

    global_batch_size = config.train.global_batch_size
    _check_sizes(global_batch_size, micro_batch_size, rank, ranks, consumed)
    places = micro_batches(
        None,
        consumed_samples=consumed,
        global_batch_size=global_batch_size,
        micro_batch_size=micro_batch_size,
        data_parallel_rank=rank,
        data_parallel_size=ranks,
    )
    return row_batches(dataset, config, places, share=global_batch_size // (micro_batch_size * ranks))


def micro_batches(
    size: int | None,
    *,
    consumed_samples: int,
    global_batch_size: int,
    micro_batch_size: int,
    data_parallel_rank: int,
    data_parallel_size: int,
) -> Iterator[list[int]]:
    """Places in the run of the samples of each micro-batch of one rank.

    Global batch g holds places [g*GBS, (g+1)*GBS); its micro-batch m on rank r holds
    g*GBS + m*MBS*DP + r*MBS + [0, MBS). Ends before the first global batch that `size` places cannot fill
    (None: never).
    """
    begin = consumed_samples
    while size is None or begin + global_batch_size <= size:
        for at in range(begin, begin + global_batch_size, micro_batch_size * data_parallel_size):
            first = at + data_parallel_rank * micro_batch_size
            yield list(range(first, first + micro_batch_size))
        begin += global_batch_size


def _shuffled(places: Iterator[list[int]], size: int, seed: int) -> Iterator[list[int]]:
    """Place p -> the (p mod size)-th sample of a permutation made from (seed, p div size)."""
    import numpy as np

    epoch, order = -1, np.empty(0, dtype=np.int64)
    for batch in places:
        samples = []
        for place in batch:
            if place // size != epoch:
                epoch = place // size
                # RandomState: numpy keeps its streams the same in all versions, so a run resumes after an upgrade.
                order = np.random.RandomState([seed, epoch]).permutation(size)
            samples.append(int(order[place % size]))
        yield samples


class _Once:
    """A batch sampler over an iterator."""

    def __init__(self, batches: Iterator[list[int]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        return self._batches


def _collate(samples: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    import torch

    return {key: torch.stack([sample[key] for sample in samples]) for key in BATCH_KEYS}


def _check_sizes(global_batch: int, micro_batch: int, rank: int, ranks: int, consumed: int) -> None:
    if micro_batch < 1 or ranks < 1 or global_batch % (micro_batch * ranks):
        raise DataError(
            f"train.global_batch_size={global_batch} is not a multiple of "
            f"train.micro_batch_size={micro_batch} x data parallel size {ranks}"
        )
    if not 0 <= rank < ranks:
        raise DataError(f"data parallel rank {rank} is not in 0..{ranks - 1}")
    if consumed < 0:
        raise DataError(f"consumed_samples is {consumed}; it counts from 0 up")
