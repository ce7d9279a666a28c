"""The files behind each split of a `megatron-indexed` dataset, opened and checked."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainwright.datasets.blend import SplitName, SplitSource, split_sources
from trainwright.datasets.errors import DataError
from trainwright.datasets.indexed import IndexedPair, open_pair

if TYPE_CHECKING:
    from trainwright.recipes.config.data import DatasetConfig


@dataclass(frozen=True)
class Part:
    """The sequences [begin, end) of a pair that one split reads."""

    pair: IndexedPair
    begin: int
    end: int
    tokens: int
    samples: int
    """Samples of one pass: neighbours share a token, the last label of one being the first token of the next."""


@dataclass(frozen=True)
class OpenSplit:
    """One split: its parts and their weights (None: as much as each holds)."""

    parts: tuple[Part, ...]
    weights: tuple[float, ...] | None


def open_splits(dataset: DatasetConfig, wanted: Iterable[SplitName]) -> dict[SplitName, OpenSplit]:
    """Open every pair once and cut out the wanted splits.

    Raises:
        DataError: words or files that cannot be used, or a wanted split with less than one sample in some prefix.
    """
    sources = split_sources(dataset)
    pairs: dict[str, IndexedPair] = {}
    for source in sources.values():
        for prefix in source.blend.prefixes:
            if prefix not in pairs:
                pairs[prefix] = _open(prefix, source.field)
    opened: dict[SplitName, OpenSplit] = {}
    for name in wanted:
        if name not in sources:
            raise DataError(_without_data(dataset, name))
        source = sources[name]
        parts = tuple(_part(pairs[prefix], source, name, dataset) for prefix in source.blend.prefixes)
        opened[name] = OpenSplit(parts, source.blend.weights)
    return opened


def _open(prefix: str, field: str) -> IndexedPair:
    try:
        return open_pair(os.path.expanduser(prefix))
    except DataError as error:
        raise DataError(f"{field}: {error}") from error


def _without_data(dataset: DatasetConfig, name: SplitName) -> str:
    if dataset.data_path is None:
        return f"the {name} split has no data: dataset.{name}_data_path is not set"
    return f"the {name} split has no data: dataset.split={dataset.split!r} gives it nothing"


def _part(pair: IndexedPair, source: SplitSource, name: SplitName, dataset: DatasetConfig) -> Part:
    import numpy as np

    begin, end = source.rows(pair.sequences)
    tokens = int(pair.lengths()[begin:end].sum(dtype=np.int64))
    needed = dataset.seq_length + 1
    if tokens < needed:
        share = f" (dataset.split={dataset.split!r})" if source.field == "dataset.data_path" else ""
        raise DataError(
            f"{source.field}: the {name} split{share} has {end - begin} of the {pair.sequences} sequences of "
            f"{pair.prefix}, {tokens} tokens; one sample takes {needed} (dataset.seq_length + 1)"
            + ("; without validation: validation.eval_iters=0" if name == "valid" else "")
        )
    return Part(pair, begin, end, tokens, (tokens - 1) // dataset.seq_length)
