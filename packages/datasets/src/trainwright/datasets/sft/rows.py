"""Raw records by number, and what one says when a record cannot be used."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

from trainwright.datasets.errors import DataError

if TYPE_CHECKING:
    import numpy as np

Row = dict[str, Any]


class BrokenRow(DataError):
    """A record that is no JSON object, or that lacks what its kind needs."""


class UnsupervisedRow(DataError):
    """A record of which nothing is left to learn."""


class Rows(Protocol):
    """Records by number, from 0."""

    fingerprint: str
    """Of content and order; the same on every machine that holds the same data."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int) -> Row:
        """Raises BrokenRow, which says what is wrong; `where` says where."""
        ...

    def where(self, number: int) -> str:
        """For messages: "training.jsonl line 17"."""
        ...


class JoinedRows:
    """Several sources one after another."""

    def __init__(self, parts: Sequence[Rows]) -> None:
        self._parts = list(parts)
        self._ends = list(accumulate(len(part) for part in parts))
        self.fingerprint = digest("joined", *(part.fingerprint for part in parts))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, number: int) -> Row:
        part, inner = self._place(number)
        return part[inner]

    def where(self, number: int) -> str:
        part, inner = self._place(number)
        return part.where(inner)

    def _place(self, number: int) -> tuple[Rows, int]:
        part = bisect_right(self._ends, number)
        return self._parts[part], number - (self._ends[part - 1] if part else 0)


class ChosenRows:
    """Some rows of a source, by their numbers (integers, shape [rows])."""

    def __init__(self, rows: Rows, numbers: np.ndarray) -> None:
        self._rows, self._numbers = rows, numbers
        self.fingerprint = digest("chosen", rows.fingerprint, hashlib.sha256(numbers.tobytes()).hexdigest())

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, number: int) -> Row:
        return self._rows[int(self._numbers[number])]

    def where(self, number: int) -> str:
        return self._rows.where(int(self._numbers[number]))


def joined(parts: Sequence[Rows]) -> Rows:
    """One source as it is, several one after another."""
    return parts[0] if len(parts) == 1 else JoinedRows(parts)


def digest(*words: str) -> str:
    """SHA-256 of words, none of which can be taken for two."""
    hashed = hashlib.sha256()
    for word in words:
        data = word.encode()
        hashed.update(f"{len(data)}:".encode())
        hashed.update(data)
    return hashed.hexdigest()
