"""All sequences of a dataset through several processes, in its order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from trainwright.datasets.progress import progress_bar
from trainwright.datasets.workers import in_order

if TYPE_CHECKING:
    import numpy as np

    from trainwright.datasets.sft.preprocess import Tokenized

SAMPLES_AT_A_TIME = 64


class Sequences(Protocol):
    """What can be packed; `trainwright.datasets.sft.dataset.SftDataset` is."""

    fingerprint: str
    """Of everything that the sequences depend on."""

    def __len__(self) -> int: ...

    def tokenized(self, number: int) -> Tokenized | str:
        """A whole sequence, or why its row is left out."""
        ...

    def where(self, number: int) -> tuple[str, ...]:
        """The row that a sequence is made of."""
        ...


@dataclass(frozen=True)
class Encoded:
    """Some sequences, one after the other."""

    tokens: np.ndarray
    """int32, shape [ids]."""
    learn: np.ndarray
    """Whether an id is learnt: bool, shape [ids]."""
    lengths: np.ndarray
    """Ids of each sequence: int64, shape [sequences]."""
    numbers: np.ndarray
    """The sample that each is: int64, shape [sequences]."""
    truncated: np.ndarray
    """Ids cut off each: int64, shape [sequences]."""
    left_out: tuple[str, ...]
    """Why, for each sample that is not here."""


def encode(dataset: Sequences, samples: range) -> Encoded:
    """The sequences of `samples`, without those that are left out.

    Raises:
        DataError: a row that cannot be used; the dataset names it.
    """
    import numpy as np

    all_found = [(number, dataset.tokenized(number)) for number in samples]
    kept = [(number, found) for number, found in all_found if not isinstance(found, str)]
    return Encoded(
        np.concatenate([np.empty(0, dtype=np.int32), *(found.ids for _, found in kept)]).astype(np.int32),
        np.concatenate([np.empty(0, dtype=bool), *(found.learn for _, found in kept)]),
        np.array([len(found.ids) for _, found in kept], dtype=np.int64),
        np.array([number for number, _ in kept], dtype=np.int64),
        np.array([found.cut for _, found in kept], dtype=np.int64),
        tuple(found for _, found in all_found if isinstance(found, str)),
    )


def encode_all(dataset: Sequences, *, workers: int, progress: bool) -> Iterator[Encoded]:
    """Everything that `encode` gives, with a bar on a terminal."""
    size = len(dataset)
    parts = [range(at, min(at + SAMPLES_AT_A_TIME, size)) for at in range(0, size, SAMPLES_AT_A_TIME)]
    results = in_order(lambda part: encode(dataset, part), parts, min(workers, max(1, len(parts))))
    # The first result before the bar, whose thread would not survive the fork of the workers.
    results = chain([first] if (first := next(results, None)) else [], results)
    with progress_bar("tokenizing", size, of="items", shown=progress) as done:
        for part, encoded in results:
            yield encoded
            done(part.stop)
