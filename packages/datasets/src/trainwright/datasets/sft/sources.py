"""Where the rows of each split are: the folders of `dataset.dataset_root`, or what `dataset.hf_dataset` names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.datasets.blend import SplitName, parse_blend
from trainwright.datasets.errors import DataError
from trainwright.datasets.index_cache import IndexCache
from trainwright.datasets.sft.jsonl import JsonlRows
from trainwright.datasets.sft.rows import Rows, joined

if TYPE_CHECKING:
    from trainwright.recipes.config.data import DatasetConfig, HfDatasetConfig

FILE_STEMS: dict[SplitName, str] = {"train": "training", "valid": "validation", "test": "test"}
SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")


@dataclass(frozen=True)
class SplitRows:
    """The sources of one split, and how much each contributes (None: as much as it holds)."""

    sources: tuple[Rows, ...]
    weights: tuple[float, ...] | None


def open_rows(dataset: DatasetConfig, split: SplitName) -> SplitRows:
    """The rows of a split; what is expensive about them (a line index, a download) is kept in the cache.

    Raises:
        DataError: words or files that cannot be used, or no row.
    """
    found = _local(dataset, split) if dataset.kind == "local-jsonl" else _published(dataset, split)
    if not sum(len(rows) for rows in found.sources):
        raise DataError(f"the {split} split has no rows")
    return found


def cache_of(dataset: DatasetConfig) -> IndexCache:
    """Where line indices and packed rows are kept: `dataset.path_to_cache`, or beside the data, or with the hub's."""
    if dataset.path_to_cache is not None:
        return IndexCache(Path(dataset.path_to_cache).expanduser())
    return IndexCache(_beside_data(dataset) / "trainwright-index-cache")


def _beside_data(dataset: DatasetConfig) -> Path:
    if dataset.kind == "local-jsonl":
        return _folders(dataset)[0][0]
    from trainwright.datasets.sft.hub import beside

    return beside(_hub(dataset))


def _folders(dataset: DatasetConfig) -> tuple[list[Path], tuple[float, ...] | None]:
    if dataset.dataset_root is None:
        raise DataError("dataset.dataset_root is not set: local-jsonl reads training.jsonl in the folder named there")
    blend = parse_blend(dataset.dataset_root, "dataset.dataset_root")
    folders = [Path(name).expanduser() for name in blend.prefixes]
    for folder in folders:
        if not folder.is_dir():
            what = "is no folder" if folder.exists() else "does not exist"
            raise DataError(f"dataset.dataset_root: {folder} {what}; it takes folders that hold training.jsonl")
    return folders, blend.weights


def _local(dataset: DatasetConfig, split: SplitName) -> SplitRows:
    cache = cache_of(dataset)
    folders, weights = _folders(dataset)
    sources = tuple(JsonlRows(_file(folder, split), cache) for folder in folders)
    if split != "train" or weights is None:
        return SplitRows((joined(sources),), None)
    for folder, rows in zip(folders, sources, strict=True):
        if not len(rows):
            raise DataError(f"dataset.dataset_root: {folder} has a weight and no rows")
    return SplitRows(sources, weights)


def _file(folder: Path, split: SplitName) -> Path:
    stem = FILE_STEMS[split]
    found = [folder / f"{stem}{suffix}" for suffix in SUFFIXES if (folder / f"{stem}{suffix}").exists()]
    if len(found) > 1:
        raise DataError(f"dataset.dataset_root: {folder} holds {' and '.join(path.name for path in found)}; keep one")
    if not found:
        there = sorted(name for name in os.listdir(folder) if not name.startswith("."))
        without = "; without validation: dataset.do_validation=false" if split == "valid" else ""
        listed = ", ".join(there[:5]) + (", ..." if len(there) > 5 else "") if there else "nothing"
        raise DataError(f"dataset.dataset_root: no {stem}.jsonl (.gz, .zst) in {folder}; it holds {listed}{without}")
    return found[0]


def _published(dataset: DatasetConfig, split: SplitName) -> SplitRows:
    from trainwright.datasets.sft.hub import hub_rows

    return SplitRows((hub_rows(_hub(dataset), split, dataset.random_seed, cache_of(dataset)),), None)


def _hub(dataset: DatasetConfig) -> HfDatasetConfig:
    if dataset.hf_dataset is None:
        raise DataError(f"dataset.hf_dataset is not set: {dataset.kind} reads the rows named there")
    return dataset.hf_dataset
