"""Samples of a run, from its own loader, taken apart into sequences for a person to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any

from trainwright.datasets.blend import SplitName
from trainwright.datasets.errors import DataError
from trainwright.datasets.sft.adapters import ADAPTERS
from trainwright.datasets.tokenizers import Tokenizer

if TYPE_CHECKING:
    import numpy as np
    import torch

    from trainwright.recipes.config import ConfigContainer


@dataclass(frozen=True)
class Segment:
    """One sequence, or a stretch of nothing but padding."""

    ids: np.ndarray
    """Its tokens and its last label: int64, shape [tokens + 1]; empty for padding alone."""
    learn: np.ndarray
    """Whether an id is learnt: bool, shape [tokens + 1]; the first never is."""
    padding: int
    """Places behind it that hold nothing."""
    where: str
    """The row of the data that it is made of, where there is one."""


@dataclass(frozen=True)
class Sample:
    """One row of a batch."""

    first: int
    """Its place in the order of the run, from 0."""
    places: int
    """Places that it takes: the samples of a micro-batch that share a row, else 1."""
    segments: tuple[Segment, ...]


def preview(config: ConfigContainer, tokenizer: Tokenizer, split: SplitName, *, skip: int = 0) -> Iterator[Sample]:
    """The rows of the run's batches in its order, from the place `skip` on, as on one data parallel rank.

    Held-out rows of text end after the last one; training goes on for ever. Packed rows are made where they are not
    there yet. For data that is no rows of text, choose the device before.

    Raises:
        DataError: words or data that cannot be used, or a split that such data does not have.
    """
    from trainwright.datasets.loader import build_loader
    from trainwright.datasets.packing.rows import padding_id

    dataset, sample_at = _opened(config, tokenizer, split)
    here = config.model_copy(update={"dataset": config.dataset.model_copy(update={"num_workers": 0})})
    batches = build_loader(
        dataset,
        here,
        consumed_samples=skip,
        data_parallel_rank=0,
        data_parallel_size=1,
        micro_batch_size=config.train.micro_batch_size,
    )
    places = config.train.micro_batch_size if config.dataset.enable_in_batch_packing else 1
    for batch in batches:
        for row in range(len(batch["tokens"])):
            rows = [sample_at(place) for place in range(skip, skip + places)]
            if all(row is None for row in rows):
                return
            wheres = [where for row in rows if row is not None for where in row]
            yield Sample(skip, places, tuple(_segments(batch, row, wheres, padding_id(tokenizer))))
            skip += places


def _opened(
    config: ConfigContainer, tokenizer: Tokenizer, split: SplitName
) -> tuple[Any, Callable[[int], tuple[str, ...] | None]]:
    """A split, and for each place of its order the rows that it is made of; None behind the last one."""
    if config.dataset.kind not in ADAPTERS:
        return _of_documents(config, tokenizer, split), lambda place: ()
    from trainwright.datasets.sft.build import packed_datasets, sft_datasets

    dataset = sft_datasets(config, tokenizer, split)
    if config.dataset.enable_offline_packing:
        dataset = packed_datasets(dataset, config, tokenizer, progress=True)
    words = config.dataset
    order = dataset.order(words.random_seed, config.train.global_batch_size, drop_last=words.drop_last)

    def rows(place: int) -> tuple[str, ...] | None:
        number = order(place)
        return None if number is None else dataset.where(number)

    return dataset, rows


def _of_documents(config: ConfigContainer, tokenizer: Tokenizer, split: SplitName) -> Any:
    """As many samples as the run asks for: their number has a say in their order."""
    from trainwright.datasets.build import build_datasets

    if split == "test":
        raise DataError(f"dataset.kind={config.dataset.kind} has no test split that a run or this command reads")
    batch, iterations = config.train.global_batch_size, config.validation.eval_iters
    held_out = iterations * batch if config.validation.eval_interval else 0
    train, valid = build_datasets(
        config, tokenizer, train_samples=config.train.train_iters * batch, valid_samples=held_out
    )
    if split == "valid" and valid is None:
        raise DataError("the run validates nothing: validation.eval_interval or validation.eval_iters is not set")
    return train if split == "train" else valid


def _segments(batch: dict[str, torch.Tensor], row: int, wheres: list[str], padding: int) -> Iterator[Segment]:
    """The sequences of a row, each with the row of the data that it is made of; what is left of it comes last."""
    import numpy as np

    tokens, labels = batch["tokens"][row].numpy(), batch["labels"][row].numpy()
    learn = batch["loss_mask"][row].numpy() > 0
    bounds = batch["cu_seqlens"].tolist() if "cu_seqlens" in batch else [0, len(tokens)]
    if wheres:
        bounds = [*bounds[: len(wheres) + 1], *bounds[-1:] * (len(bounds) > len(wheres) + 1)]
    for (begin, end), where in zip_longest(pairwise(bounds), wheres, fillvalue=""):
        place = slice(begin, end)
        holds = np.flatnonzero((tokens[place] != padding) | (labels[place] != padding) | learn[place])
        last = begin + (int(holds[-1]) + 1 if len(holds) else 0)
        yield Segment(
            ids=np.append(tokens[begin:last], labels[last - 1 : last] if len(holds) else []).astype(np.int64),
            learn=np.append([False] if len(holds) else [], learn[begin:last]).astype(bool),
            padding=end - last,
            where=where,
        )
