"""Sequences by number, each made from its row when it is asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from trainwright.datasets.errors import DataError
from trainwright.datasets.sft.adapters import Adapter
from trainwright.datasets.sft.preprocess import Preprocessor, Tokenized
from trainwright.datasets.sft.rows import BrokenRow, Rows, UnsupervisedRow, digest

if TYPE_CHECKING:
    from trainwright.recipes.config.data import PreprocessingConfig

Sample = dict[str, Any]


class SftDataset:
    """Rows, and what makes sequences of them."""

    def __init__(self, rows: Rows, adapter: Adapter, preprocess: Preprocessor, words: PreprocessingConfig) -> None:
        self.rows, self._adapter, self._preprocess = rows, adapter, preprocess
        self._skipped: tuple[type[Exception], ...] = (
            *([BrokenRow] if words.broken_rows == "skip" else []),
            *([UnsupervisedRow] if words.unsupervised_rows == "skip" else []),
        )
        described = preprocess.identity | {
            "adapter": adapter.__name__,
            "skipped": [kind.__name__ for kind in self._skipped],
        }
        self.fingerprint = digest(rows.fingerprint, json.dumps(described, sort_keys=True))
        """Of everything that the sequences depend on: rows, preprocessing, tokenizer, length."""

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Sample | None:
        """`{tokens, labels: int64, loss_mask: float32}`, arrays of shape [tokens - 1], and `truncated`, the number of
        tokens that were cut off. `loss_mask[i]` says that `labels[i]` is learnt. None: the row is skipped.

        Raises:
            DataError: a row that cannot be used and is not to be skipped; it is named.
        """
        found = self.tokenized(number)
        return shifted(found) if isinstance(found, Tokenized) else None

    def tokenized(self, number: int) -> Tokenized | str:
        """The whole sequence, or why the row is skipped.

        Raises:
            DataError: as above.
        """
        try:
            return self._preprocess(self._adapter(self.rows[number]))
        except (BrokenRow, UnsupervisedRow) as error:
            message = f"{self.rows.where(number)}: {error}"
            if isinstance(error, self._skipped):
                return message
            raise type(error)(message + _LEFT_OUT[type(error)]) from None

    def where(self, number: int) -> tuple[str, ...]:
        """The row that a sample is made of."""
        return (self.rows.where(number),)

    def check(self, number: int) -> None:
        """Read a row and its columns, and make no ids of it. Raises DataError as above."""
        try:
            self._preprocess.check(self._adapter(self.rows[number]))
        except BrokenRow as error:
            if BrokenRow not in self._skipped:
                raise BrokenRow(f"{self.rows.where(number)}: {error}{_LEFT_OUT[BrokenRow]}") from None


_LEFT_OUT: dict[type[DataError], str] = {
    BrokenRow: " (dataset.preprocessing.broken_rows=skip leaves such rows out)",
    UnsupervisedRow: " (dataset.preprocessing.unsupervised_rows=skip leaves such rows out)",
}


def shifted(sequence: Tokenized) -> Sample:
    """Each token and the one after it, which it is to predict."""
    import numpy as np

    return {
        "tokens": sequence.ids[:-1],
        "labels": sequence.ids[1:],
        "loss_mask": sequence.learn[1:].astype(np.float32),
        "truncated": sequence.cut,
    }


def empty(padding: int) -> Sample:
    """One token of padding, and nothing to learn."""
    import numpy as np

    token = np.array([padding], dtype=np.int64)
    return {"tokens": token, "labels": token, "loss_mask": np.zeros(1, dtype=np.float32), "truncated": 0}


def without_loss(sample: Sample) -> Sample:
    """The same shapes and nothing to learn: what a batch is filled up with."""
    return sample | {"loss_mask": sample["loss_mask"] * 0}
