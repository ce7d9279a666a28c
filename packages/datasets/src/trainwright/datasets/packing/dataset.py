"""Rows of packed sequences, as training reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.datasets.packing.artifact import Artifact
from trainwright.datasets.packing.rows import packed_row
from trainwright.datasets.packing.tokenizing import Sequences

if TYPE_CHECKING:
    import numpy as np
    import torch


class PackedDataset:
    """One row of `size` tokens for each index, in the form of `rows.packed_row`."""

    def __init__(
        self, source: Sequences, artifact: Artifact, folder: Path, *, size: int, alignment: int, pad: int
    ) -> None:
        self.artifact, self.folder = artifact, folder
        self._source = source
        self.size, self.alignment = size, alignment
        self.fingerprint: str = artifact.description["fingerprint"]
        self._pad = pad

    def __len__(self) -> int:
        return len(self.artifact.offsets) - 1

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        """Raises IndexError."""
        sequences = [self._sequence(int(number)) for number in self.artifact.sequences(range(len(self))[row])]
        return packed_row(sequences, alignment=self.alignment, pad=self._pad, size=self.size)

    def where(self, row: int) -> tuple[str, ...]:
        """The rows of the data that the sequences of a packed row are made of."""
        numbers = self.artifact.numbers[self.artifact.sequences(row)].tolist()
        return tuple(where for number in numbers for where in self._source.where(number))

    def segment_lengths(self, row: int) -> np.ndarray:
        """Tokens of each sequence of a row, without padding: int64, shape [sequences]."""
        return self.artifact.lengths(self.artifact.sequences(row))

    def _sequence(self, number: int) -> dict[str, Any]:
        begin, end = self.artifact.starts[number : number + 2]
        ids, learn = self.artifact.tokens[begin:end], self.artifact.learn[begin:end]
        return {"tokens": ids[:-1], "labels": ids[1:], "loss_mask": learn[1:]}
