"""Rows of a published dataset: from the hub, from a clone of its repository, or from a file of the same shape.

JSON lines are read where they lie. Other formats become Arrow tables once, in a cache folder named by their content:
the `datasets` library takes a file for unchanged when its path and modification time are.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.datasets.blend import SplitName
from trainwright.datasets.errors import DataError
from trainwright.datasets.index_cache import IndexCache
from trainwright.datasets.sft.jsonl import content_sha256, json_rows
from trainwright.datasets.sft.rows import ChosenRows, Row, Rows, digest, joined

if TYPE_CHECKING:
    import numpy as np

    from trainwright.recipes.config.data import HfDatasetConfig

JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
FILE_SUFFIXES = (*JSON_SUFFIXES, ".parquet")
_COMPRESSED = (".gz", ".zst")
_LFS = b"version https://git-lfs"


def hub_rows(source: HfDatasetConfig, split: SplitName, seed: int, cache: IndexCache) -> Rows:
    """The rows of one split; with `validation_proportion`, what `split` holds is shared out by `seed`.

    Raises:
        DataError: it cannot be found, fetched or read, or nothing says what the split is.
    """
    published = {"train": source.split, "valid": source.validation_split, "test": source.test_split}[split]
    if published is not None and (split != "train" or source.validation_proportion is None):
        return _split(source, published, cache)
    if split == "test":
        raise DataError("dataset.hf_dataset.test_split is not set: nothing says which rows are for testing")
    if source.validation_proportion is None:
        raise DataError(
            "neither dataset.hf_dataset.validation_split nor validation_proportion is set; "
            "without validation: dataset.do_validation=false"
        )
    rows = _split(source, source.split, cache)
    train, valid = held_out(len(rows), source.validation_proportion, seed)
    return ChosenRows(rows, valid if split == "valid" else train)


def held_out(size: int, proportion: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the rows to train on and of those to validate on, each ascending.

    Of `size` rows, the first ceil(size x proportion) of a permutation from `seed` are for validation.

    Raises:
        DataError: nothing is left to train on.
    """
    import numpy as np

    count = math.ceil(size * proportion)
    if count >= size:
        raise DataError(f"validation_proportion={proportion} of {size} rows leaves none to train on")
    order = np.random.RandomState(seed).permutation(size)
    return np.sort(order[count:]), np.sort(order[:count])


def beside(source: HfDatasetConfig) -> Path:
    """The folder in which to keep caches: beside local data, else where the `datasets` library keeps its own."""
    path = Path(source.path).expanduser()
    if path.exists():
        return path.absolute().parent
    home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    return Path(os.environ.get("HF_DATASETS_CACHE") or f"{home}/datasets").expanduser()


class TableRows:
    """The rows of an Arrow table, mapped from disk by the `datasets` library."""

    def __init__(self, table: Any, name: str, fingerprint: str) -> None:
        self._table, self._name, self.fingerprint = table, name, fingerprint

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, number: int) -> Row:
        row: Row = self._table[number]
        return row

    def where(self, number: int) -> str:
        return f"{self._name} row {number}"


class _Lengths(Mapping[str, int]):
    """How many rows each split has; a split is opened when it is asked for."""

    def __init__(self, names: list[str], rows: Callable[[str], Rows]) -> None:
        self._names, self._rows = names, rows

    def __getitem__(self, name: str) -> int:
        return len(self._rows(name))

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _split(source: HfDatasetConfig, spec: str, cache: IndexCache) -> Rows:
    """The rows that a split with its slices names: `train`, `SWE_Rebench[:64]`, `train[:90%]+test`."""
    names, open_one = _opener(source, cache)
    opened: dict[str, Rows] = {}

    def rows(name: str) -> Rows:
        if name not in opened:
            opened[name] = open_one(name)
        return opened[name]

    parts = [_sliced(rows(name), begin, end) for name, begin, end in _instructions(spec, _Lengths(names, rows), source)]
    return joined(parts)


def _instructions(spec: str, lengths: _Lengths, source: HfDatasetConfig) -> list[tuple[str, int, int]]:
    from datasets import ReadInstruction
    from trainwright.recipes.nearest import did_you_mean

    try:
        absolute = ReadInstruction.from_spec(spec).to_absolute(lengths)
    except DataError:
        raise
    except (ValueError, AssertionError) as error:
        base = spec.split("[")[0]
        reason = (
            str(error).splitlines()[0]
            if base in lengths
            else f"{source.path} has the splits {', '.join(lengths)}{did_you_mean(base, lengths)}"
        )
        raise DataError(f"dataset.hf_dataset: split {spec!r} cannot be had: {reason}") from None
    return [(part.splitname, part.from_, part.to) for part in absolute]


def _sliced(rows: Rows, begin: int, end: int) -> Rows:
    import numpy as np

    return rows if (begin, end) == (0, len(rows)) else ChosenRows(rows, np.arange(begin, end))


def _opener(source: HfDatasetConfig, cache: IndexCache) -> tuple[list[str], Callable[[str], Rows]]:
    """The names of the splits, and what opens one."""
    path = Path(source.path).expanduser()
    if path.is_file():
        return _one_file(source, path, cache)
    if path.is_dir():
        return _clone(source, path, cache)
    if _base(path).suffix in FILE_SUFFIXES or source.path.startswith(("/", ".", "~")):
        raise DataError(f"dataset.hf_dataset.path: {source.path} does not exist")
    return _hub(source)


def _base(path: Path) -> Path:
    return path.with_suffix("") if path.suffix in _COMPRESSED else path


def _one_file(source: HfDatasetConfig, path: Path, cache: IndexCache) -> tuple[list[str], Callable[[str], Rows]]:
    """A file is the split that is trained on, whatever that is called; it is no other split."""
    if _base(path).suffix not in FILE_SUFFIXES:
        raise DataError(f"dataset.hf_dataset.path: {path} is none of {', '.join(FILE_SUFFIXES)} (.gz, .zst)")
    name = source.split.split("[")[0]
    return [name], lambda _: _files("parquet", [path], str(path), cache)


def _files(builder: str, paths: list[Path], name: str, cache: IndexCache) -> Rows:
    """Files of one split: JSON as it lies, all else as one table."""
    for path in paths:
        with path.open("rb") as stream:
            if stream.read(len(_LFS)) == _LFS:
                raise DataError(f"{path} is a pointer of Git LFS and no data; `git lfs pull` fetches it")
    if all(_base(path).suffix in JSON_SUFFIXES for path in paths):
        return joined([json_rows(path, cache) for path in paths])
    content = digest(*(content_sha256(path, cache) for path in paths))
    folder = cache.folder / f"tables-{content[:32]}"
    files = [str(path) for path in paths]
    table = _load(name, builder, data_files={"train": files}, split="train", cache_dir=str(folder))
    return TableRows(table, name, content)


def _clone(source: HfDatasetConfig, path: Path, cache: IndexCache) -> tuple[list[str], Callable[[str], Rows]]:
    """The splits that the repository's card, or else the names of its files, tell."""
    builder = _builder(source, str(path))
    files = {str(name): [Path(file) for file in found] for name, found in (builder.config.data_files or {}).items()}
    if not files:
        raise DataError(f"dataset.hf_dataset.path: no data in {path}")
    return list(files), lambda name: _files(builder.name, files[name], f"{path} {name}", cache)


def _hub(source: HfDatasetConfig) -> tuple[list[str], Callable[[str], Rows]]:
    builder = _builder(source, source.path)
    names = [*map(str, builder.config.data_files or builder.info.splits or {})]

    def rows(name: str) -> Rows:
        table = _load(source.path, source.path, name=source.name, split=name, revision=source.revision)
        identity = digest(source.path, str(builder.config.name), str(builder.hash), name)
        return TableRows(table, f"{source.path} {name}", identity)

    return names, rows


def _builder(source: HfDatasetConfig, path: str) -> Any:
    from datasets import load_dataset_builder

    revision = None if Path(path).is_dir() else source.revision
    try:
        return load_dataset_builder(path, source.name, revision=revision)
    except Exception as error:  # the library raises whatever it met first, of any type
        raise _cannot_load(source.path, error) from None


def _load(shown: str, path: str, **words: Any) -> Any:
    import datasets

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    try:
        return datasets.load_dataset(path, **words)
    except Exception as error:  # as above
        raise _cannot_load(shown, error) from None


def _cannot_load(shown: str, error: Exception) -> DataError:
    import datasets

    reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    if Path(shown).expanduser().exists():
        return DataError(f"dataset.hf_dataset.path: {shown} cannot be read: {reason}")
    offline = "offline (HF_HUB_OFFLINE)" if datasets.config.HF_HUB_OFFLINE else "online"
    hint = "" if "/" in shown else "; ids have the form owner/name, such as rajpurkar/squad"
    return DataError(
        f"dataset.hf_dataset.path: {shown} is no file or folder here, and cannot be had from the hub ({offline}; "
        f"cache {datasets.config.HF_DATASETS_CACHE}): {reason}{hint}"
    )
