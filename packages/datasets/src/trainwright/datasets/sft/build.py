"""From a configuration to the datasets of a run over rows."""

from __future__ import annotations

import os
import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

from trainwright.datasets.blend import SplitName
from trainwright.datasets.errors import DataError
from trainwright.datasets.packing.rows import padding_id
from trainwright.datasets.sft.adapters import ADAPTERS
from trainwright.datasets.sft.dataset import SftDataset
from trainwright.datasets.sft.order import Order, blended, epochs, one_pass, usable_samples
from trainwright.datasets.sft.preprocess import Preprocessor
from trainwright.datasets.sft.rows import digest
from trainwright.datasets.sft.sources import cache_of, open_rows
from trainwright.datasets.tokenizers import Tokenizer

if TYPE_CHECKING:
    from trainwright.recipes.config import ConfigContainer


class Samples(Protocol):
    """Sequences, or packed rows, by number; None for one that is skipped."""

    fingerprint: str

    def __len__(self) -> int: ...

    def __getitem__(self, number: int) -> Any: ...

    def where(self, number: int) -> tuple[str, ...]:
        """The rows that a sample is made of."""
        ...


class RunDataset:
    """What one split of a run reads: one or more sources, and the order of their samples."""

    def __init__(
        self, parts: Sequence[Samples], weights: Sequence[float] | None, split: SplitName, padding: int
    ) -> None:
        self.parts, self.weights, self.split = tuple(parts), weights, split
        self.padding = padding
        """The id that fills up batches."""
        self._firsts = [0, *accumulate(len(part) for part in parts)]
        self.fingerprint = digest(split, repr(weights), *(part.fingerprint for part in parts))

    def __len__(self) -> int:
        return self._firsts[-1]

    def __getitem__(self, number: int) -> Any:
        part, inner = self._place(number)
        return part[inner]

    def check(self, number: int) -> None:
        """Read a row and its columns, and make no ids of it. Raises DataError for one that cannot be used."""
        part, inner = self._place(number)
        if isinstance(part, SftDataset):
            part.check(inner)

    def where(self, number: int) -> tuple[str, ...]:
        """The rows that a sample is made of, such as "training.jsonl line 17"."""
        part, inner = self._place(number)
        return part.where(inner)

    def why_skipped(self, number: int) -> str:
        """Where the row is and what is wrong with it, after its sample was None."""
        part, inner = self._place(number)
        return str(part.tokenized(inner)) if isinstance(part, SftDataset) else f"sample {number}"

    def _place(self, number: int) -> tuple[Samples, int]:
        part = bisect_right(self._firsts, number, hi=len(self.parts)) - 1
        return self.parts[part], number - self._firsts[part]

    @property
    def samples_per_epoch(self) -> int | None:
        """Samples of one pass; None where weights leave a pass undefined."""
        return None if self.weights else len(self)

    def order(self, seed: int, global_batch_size: int, *, drop_last: bool) -> Order:
        """Training: endless, shuffled anew each epoch. Other splits: each sample once, then places to fill up.

        Raises:
            DataError: `drop_last` with weights, or with less than one global batch.
        """
        if self.split != "train":
            return one_pass(len(self))
        if self.weights is None:
            return epochs(len(self), seed, usable=usable_samples(len(self), global_batch_size, drop_last=drop_last))
        if drop_last:
            raise DataError("dataset.drop_last=true: sources with weights have no epoch in common, so no last batch")
        return blended([len(part) for part in self.parts], self.weights, seed)


def sft_datasets(config: ConfigContainer, tokenizer: Tokenizer, split: SplitName) -> RunDataset:
    """The sequences of a split, one sample for each row; packing takes them from here.

    Raises:
        DataError: words, files or rows that cannot be used.
    """
    dataset = config.dataset
    rows = open_rows(dataset, split)
    preprocess = Preprocessor(dataset, tokenizer)
    adapter = ADAPTERS[dataset.kind]
    parts = [SftDataset(source, adapter, preprocess, dataset.preprocessing) for source in rows.sources]
    return RunDataset(parts, rows.weights, split, padding_id(tokenizer))


def packed_datasets(
    opened: RunDataset,
    config: ConfigContainer,
    tokenizer: Tokenizer,
    *,
    workers: int | None = None,
    progress: bool = False,
    say: Callable[[str], None] | None = None,
) -> RunDataset:
    """The same split as packed rows, each source for itself; see `packing.offline.packed`."""
    from trainwright.datasets.packing.offline import packed

    folder = cache_of(config.dataset).folder
    say = say or _said_by_one_rank
    parts = [
        packed(part, config, tokenizer, opened.split, folder=folder, workers=workers, progress=progress, say=say)
        for part in opened.parts
    ]
    return RunDataset(parts, opened.weights, opened.split, opened.padding)


def _said_by_one_rank(line: str) -> None:
    if os.environ.get("RANK", "0") == "0":
        print(line, file=sys.stderr, flush=True)
