"""Megatron Core's datasets, composed here and not by its builder.

The builder has ranks wait for rank 0, which other file systems do not see and which hangs them all where rank 0
fails; it loops for ever on a split without documents; and it builds the test split, which nobody reads. The classes
and the arithmetic are Megatron Core's, so the samples are the same (megatron.core.datasets, version 0.19.2).

Import after the device is chosen.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from megatron.core.datasets.blended_dataset import BlendedDataset
from megatron.core.datasets.gpt_dataset import (
    GPTDataset,
    GPTDatasetConfig,
    MockGPTDataset,
    MockGPTLowLevelDataset,
)
from megatron.core.datasets.indexed_dataset import IndexedDataset
from megatron.core.datasets.utils import Split
from torch.utils.data import Dataset

from trainwright.datasets.blend import SplitName, split_bounds
from trainwright.datasets.check import cache_folder
from trainwright.datasets.index_cache import IndexCache
from trainwright.datasets.sources import OpenSplit, Part, open_splits
from trainwright.datasets.tokenizers import Tokenizer
from trainwright.recipes.config import ConfigContainer

SURPLUS = 0.005
"""Samples built above those that a weight asks for, as a fraction (mid_level_dataset_surplus of Megatron Core)."""

for _module in ("gpt_dataset", "blended_dataset"):
    # They warn that indices are not cached; they are, by IndexCache.
    logging.getLogger(f"megatron.core.datasets.{_module}").setLevel(logging.ERROR)

Built = tuple[dict[SplitName, Dataset[Any]], str]
"""The datasets, and a digest of the data that they read."""


def mock(config: ConfigContainer, tokenizer: Tokenizer, wanted: Mapping[SplitName, int]) -> Built:
    """Generated documents; `dataset.split` cuts them as it cuts real ones."""
    gpt_config = _gpt_config(config, tokenizer, blend=None, split=None)
    documents = MockGPTLowLevelDataset(tokenizer)
    bounds = split_bounds(config.dataset.split or "1")
    datasets: dict[SplitName, Dataset[Any]] = {}
    for name, samples in wanted.items():
        begin, end = (round(bound * len(documents)) for bound in bounds[name])
        rows = np.arange(begin, end, dtype=np.int32)
        datasets[name] = MockGPTDataset(documents, None, rows, _or_one_pass(config, samples), Split[name], gpt_config)
    return datasets, "mock"


def indexed(config: ConfigContainer, tokenizer: Tokenizer, wanted: Mapping[SplitName, int]) -> Built:
    """`.bin`/`.idx` pairs, blended where there are several."""
    splits = open_splits(config.dataset, wanted)
    cache = IndexCache(cache_folder(config.dataset, splits))
    prefixes = [part.pair.prefix for part in splits["train"].parts]
    gpt_config = _gpt_config(config, tokenizer, blend=(prefixes, None), split="1")
    datasets = {
        name: _split_dataset(splits[name], Split[name], _or_one_pass(config, samples), gpt_config, cache)
        for name, samples in wanted.items()
    }
    digest = json.dumps([[part.pair.sha256 for part in split.parts] for split in splits.values()])
    return datasets, hashlib.sha256(digest.encode()).hexdigest()


def _or_one_pass(config: ConfigContainer, samples: int) -> int | None:
    return None if config.dataset.dataloader_type == "cyclic" else samples


def _gpt_config(config: ConfigContainer, tokenizer: Tokenizer, *, blend: Any, split: str | None) -> GPTDatasetConfig:
    dataset = config.dataset
    return GPTDatasetConfig(
        random_seed=dataset.random_seed,
        sequence_length=dataset.seq_length,
        blend=blend,
        split=split,
        # Empty: Megatron Core builds its indices in memory, on any rank; IndexCache keeps them.
        path_to_cache="",
        mmap_bin_files=dataset.mmap_bin_files,
        tokenizer=tokenizer,  # it asks for vocab_size, eod, pad and unique_identifiers
        reset_position_ids=dataset.reset_position_ids,
        reset_attention_mask=False,
        eod_mask_loss=dataset.eod_mask_loss,
        create_attention_mask=False,
    )


def _split_dataset(
    split: OpenSplit, name: Split, samples: int | None, gpt_config: GPTDatasetConfig, cache: IndexCache
) -> Dataset[Any]:
    if len(split.parts) == 1:
        return CachedGPTDataset(cache, split.parts[0], samples, name, gpt_config)
    one_pass = [part.samples for part in split.parts]
    if split.weights is None and (samples is None or samples <= sum(one_pass)):
        datasets = [CachedGPTDataset(cache, part, None, name, gpt_config) for part in split.parts]
        return CachedBlendedDataset(cache, datasets, one_pass, None, gpt_config, samples_per_epoch=sum(one_pass))
    # Without weights, what is read more than once is read in proportion to its size.
    weights = split.weights or [part.tokens for part in split.parts]
    shares = [weight / math.fsum(weights) for weight in weights]
    samples_per_epoch = None if split.weights else sum(one_pass)
    return _weighted(split.parts, shares, samples or sum(one_pass), samples_per_epoch, name, gpt_config, cache)


def _weighted(
    parts: Sequence[Part],
    weights: Sequence[float],
    samples: int,
    samples_per_epoch: int | None,
    name: Split,
    gpt_config: GPTDatasetConfig,
    cache: IndexCache,
) -> Dataset[Any]:
    targets = [math.ceil(samples * weight) for weight in weights]
    surplus = SURPLUS
    while True:
        datasets = [
            CachedGPTDataset(cache, part, math.ceil(target * (1 + surplus)), name, gpt_config)
            for part, target in zip(parts, targets, strict=True)
        ]
        try:
            return CachedBlendedDataset(
                cache, datasets, list(weights), sum(targets), gpt_config, samples_per_epoch=samples_per_epoch
            )
        except IndexError:  # the blend drew more from a small part than its share and the surplus
            surplus *= 10


class CachedGPTDataset(GPTDataset):
    """One part of one pair, its indices kept in the cache."""

    def __init__(
        self, cache: IndexCache, part: Part, samples: int | None, split: Split, config: GPTDatasetConfig
    ) -> None:
        self._cache, self._part = cache, part
        self.samples_per_epoch = part.samples
        low_level = IndexedDataset(part.pair.prefix, mmap=config.mmap_bin_files)
        rows = np.arange(part.begin, part.end, dtype=np.int32)
        super().__init__(low_level, part.pair.prefix, rows, samples, split, config)

    def _build_document_sample_shuffle_indices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        key = {
            "index": "megatron-core 0.19 GPTDataset",
            "idx_sha256": self._part.pair.sha256,
            "sequences": [self._part.begin, self._part.end],
            "samples": self.num_samples,
            "split": self.index_split.name,
            "random_seed": self.config.random_seed,
            "seq_length": self.config.sequence_length,
        }
        names = ("document_index", "sample_index", "shuffle_index")
        documents, samples, shuffle = self._cache.arrays(key, names, super()._build_document_sample_shuffle_indices)
        return documents, samples, shuffle


class CachedBlendedDataset(BlendedDataset):
    """Several parts in proportion to weights, the order kept in the cache."""

    def __init__(
        self,
        cache: IndexCache,
        datasets: list[CachedGPTDataset],
        weights: list[int] | list[float],
        size: int | None,
        config: GPTDatasetConfig,
        *,
        samples_per_epoch: int | None,
    ) -> None:
        self._cache = cache
        self.samples_per_epoch = samples_per_epoch
        super().__init__(datasets, weights, size, config)

    def _build_indices(self) -> tuple[np.ndarray, np.ndarray]:
        key = {
            "index": "megatron-core 0.19 BlendedDataset",
            "weights": self.weights,
            "samples": self.size,
            "lengths": [len(dataset) for dataset in self.datasets],
        }
        index, sample_index = self._cache.arrays(key, ("dataset_index", "dataset_sample_index"), super()._build_indices)
        return index, sample_index
