"""Everything about the data of a run that can be known before its ranks exist."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.datasets.blend import SplitName, parse_split
from trainwright.datasets.errors import DataError
from trainwright.datasets.indexed import check_token_ids
from trainwright.datasets.provenance import check_tokenizer
from trainwright.datasets.sft.adapters import ADAPTERS
from trainwright.datasets.sources import OpenSplit, open_splits
from trainwright.datasets.tokenizers import Tokenizer, build_tokenizer

if TYPE_CHECKING:
    from trainwright.recipes.config import ConfigContainer
    from trainwright.recipes.config.data import DatasetConfig

_SEEDS = 2**32
ROWS_READ, ROWS_ENCODED = 2000, 50
"""Rows of a split that are looked at before a run: as JSON and for their columns; as token ids."""


def check_data(config: ConfigContainer) -> None:
    """Refuse a run whose data cannot be read. Needs no ranks, no torch and no GPU.

    Raises:
        DataError: a word or a file that cannot be used; the message is one line and names it.
    """
    dataset = config.dataset
    tokenizer = build_tokenizer(config.tokenizer)
    if config.model.vocab_size is not None and config.model.vocab_size < tokenizer.vocab_size:
        raise DataError(
            f"model.vocab_size={config.model.vocab_size} is smaller than the tokenizer's vocabulary, "
            f"{tokenizer.vocab_size}"
        )
    if dataset.random_seed >= _SEEDS:
        raise DataError(f"dataset.random_seed={dataset.random_seed} is too large; it is below {_SEEDS}")
    if dataset.kind == "mock":
        _check_mock(dataset, tokenizer)
        return
    if dataset.kind in ADAPTERS:
        _check_rows(config, tokenizer)
        return
    splits = open_splits(dataset, wanted_splits(config))
    for pair in {part.pair.prefix: part.pair for split in splits.values() for part in split.parts}.values():
        check_tokenizer(pair, tokenizer)
        check_token_ids(pair, tokenizer.vocab_size)
    _check_cache_folder(cache_folder(dataset, splits))


def wanted_splits(config: ConfigContainer) -> tuple[SplitName, ...]:
    """The splits that the run reads."""
    validates = config.validation.eval_interval is not None and config.validation.eval_iters > 0
    if config.dataset.kind in ADAPTERS and not config.dataset.do_validation:
        validates = False
    return ("train", "valid") if validates else ("train",)


def cache_folder(dataset: DatasetConfig, splits: dict[SplitName, OpenSplit]) -> Path:
    """Where sample indices are kept: `dataset.path_to_cache`, or beside the first training prefix."""
    if dataset.path_to_cache is not None:
        return Path(dataset.path_to_cache).expanduser()
    return Path(splits["train"].parts[0].pair.prefix).parent / "trainwright-index-cache"


def _check_mock(dataset: DatasetConfig, tokenizer: Tokenizer) -> None:
    if tokenizer.vocab_size < 2:
        raise DataError("dataset.kind=mock needs a vocabulary of at least 2 tokens: tokenizer.vocab_size=1")
    for field in ("data_path", "train_data_path", "valid_data_path", "test_data_path"):
        if getattr(dataset, field) is not None:
            raise DataError(f"dataset.{field} is set, but dataset.kind=mock reads no files; select megatron-indexed")
    if dataset.split is None:
        raise DataError("dataset.split is not set: mock data is cut into shares such as 99,1,0")
    if parse_split(dataset.split)[0] == 0:
        raise DataError(f"the train split has no data: dataset.split={dataset.split!r} gives it nothing")


def _check_rows(config: ConfigContainer, tokenizer: Tokenizer) -> None:
    """Open every split, read some rows of each and make ids of fewer: first and last, and others between them."""
    from trainwright.datasets.sft.build import sft_datasets
    from trainwright.datasets.sft.sources import cache_of

    _check_cache_folder(cache_of(config.dataset).folder)
    for split in wanted_splits(config):
        opened = sft_datasets(config, tokenizer, split)
        opened.order(config.dataset.random_seed, config.train.global_batch_size, drop_last=config.dataset.drop_last)
        for number in _spread(len(opened), ROWS_READ):
            opened.check(number)
        for number in _spread(len(opened), ROWS_ENCODED):
            opened[number]


def _spread(size: int, count: int) -> list[int]:
    """At most `count` numbers below `size`, first and last among them."""
    if size <= count:
        return list(range(size))
    return [round(place * (size - 1) / (count - 1)) for place in range(count)]


def _check_cache_folder(folder: Path) -> None:
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    problem = (
        "is not a folder"
        if not existing.is_dir()
        else "is not writable"
        if not os.access(existing, os.W_OK | os.X_OK)
        else ""
    )
    if problem:
        raise DataError(f"the index cache cannot be kept in {folder}: {existing} {problem}; set dataset.path_to_cache")
