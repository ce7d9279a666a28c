"""Batches of rows in the order of the run, made by worker processes."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import batched
from typing import TYPE_CHECKING, Any

from trainwright.datasets.errors import DataError
from trainwright.datasets.loader_workers import ignore_stop_signals, started, stop
from trainwright.datasets.sft.build import RunDataset
from trainwright.datasets.sft.collate import Batch, pad, padded_length, round_up
from trainwright.datasets.sft.dataset import empty, without_loss

if TYPE_CHECKING:
    import numpy as np

    from trainwright.recipes.config import ConfigContainer

_LOG = logging.getLogger("trainwright.datasets")
_NAMED = 3
"""Skipped rows that are named; all are counted."""


class RowFailure(DataError):
    """A row that is not to be skipped turned out to be unusable when the run came to it."""

    exit_code = 1


@dataclass(frozen=True)
class Made:
    """What a worker hands over: micro-batches, why rows in them were skipped, or why there are none."""

    batches: tuple[dict[str, np.ndarray], ...] = ()
    """Arrays travel between processes as bytes; each tensor would be a shared file of its own, which costs more."""
    skipped: tuple[str, ...] = ()
    failure: str | None = None


def row_batches(
    dataset: RunDataset, config: ConfigContainer, places: Iterator[list[int]], *, share: int
) -> Iterator[Batch]:
    """The micro-batches whose samples stand at `places` in the run; see `build_loader`.

    `share` is how many micro-batches one rank has of a global batch.
    """
    import torch
    from torch.utils.data import DataLoader

    words = config.dataset
    order = dataset.order(words.random_seed, config.train.global_batch_size, drop_last=words.drop_last)
    numbers = ([_FILL if (sample := order(place)) is None else sample for place in batch] for batch in places)
    together = share if words.dataloader_type == "batch" else 1
    loader = DataLoader(
        _Maker(dataset, config),  # type: ignore[arg-type]
        sampler=_Stream(map(list, batched(numbers, together))),
        batch_size=None,
        collate_fn=_as_it_is,
        num_workers=words.num_workers,
        worker_init_fn=_quiet if words.num_workers else None,
        generator=torch.Generator(),  # its own, so that the run's random numbers stay what they are
    )
    return _unwrapped(started(loader))


_FILL = -1
"""In the place of a sample: a row without loss."""


class _Stream:
    """A sampler over an iterator."""

    def __init__(self, groups: Iterator[list[list[int]]]) -> None:
        self._groups = groups

    def __iter__(self) -> Iterator[list[list[int]]]:
        return self._groups


class _Maker:
    """Micro-batches from the numbers of their samples. Runs in a worker."""

    def __init__(self, dataset: RunDataset, config: ConfigContainer) -> None:
        self._dataset, self._collate = dataset, _collator(config, dataset.padding)

    def __getitem__(self, groups: list[list[int]]) -> Made:
        """Raises no DataError: from a worker it would arrive as a page of text."""
        skipped: list[str] = []
        try:
            samples = [[self._sample(number, skipped) for number in group] for group in groups]
            made = self._collate(samples)
            arrays = tuple({name: tensor.numpy() for name, tensor in batch.items()} for batch in made)
            return Made(arrays, tuple(skipped))
        except DataError as error:
            return Made(failure=str(error))

    def _sample(self, number: int, skipped: list[str]) -> Any:
        if number == _FILL:
            return without_loss(self._dataset[0] or empty(self._dataset.padding))
        sample = self._dataset[number]
        if sample is None:
            skipped.append(self._dataset.why_skipped(number))
            return empty(self._dataset.padding)
        return sample


def _collator(config: ConfigContainer, padding: int) -> Callable[[list[list[Any]]], list[Batch]]:
    """From the samples of some micro-batches to these; padded ones all get the same length."""
    if config.dataset.enable_offline_packing:
        return lambda groups: [row for rows in groups for row in rows]
    length, multiple = padded_length(config)
    if config.dataset.enable_in_batch_packing:
        from trainwright.datasets.packing.in_batch import pack_batch

        return lambda groups: [pack_batch(group, padding, length=length, multiple=multiple) for group in groups]

    def padded(groups: list[list[Any]]) -> list[Batch]:
        size = length or max(round_up(len(sample["tokens"]), multiple) for group in groups for sample in group)
        return [pad(group, padding, size) for group in groups]

    return padded


def _as_it_is(made: Made) -> Made:
    return made


def _quiet(worker: int) -> None:
    """A worker of the loader: no signal meant for the rank ends it, and its tokenizer starts no threads of its own."""
    ignore_stop_signals(worker)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def _unwrapped(made: Iterator[Made]) -> Iterator[Batch]:
    """The micro-batches one by one; skipped rows are counted, and the first of them named."""
    import torch

    skipped = 0
    try:
        for some in made:
            if some.failure is not None:
                raise RowFailure(some.failure)
            for reason in some.skipped:
                skipped += 1
                if skipped <= _NAMED or skipped.bit_count() == 1:
                    _LOG.warning("row skipped (%d so far): %s", skipped, reason)
            for batch in some.batches:
                yield {name: torch.from_numpy(array) for name, array in batch.items()}
    finally:
        stop(made)
