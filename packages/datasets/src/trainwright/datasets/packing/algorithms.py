"""Which sequences share a row: bin packing by first-fit and best-fit decreasing.

Both give exactly what the textbook algorithm gives that takes one sequence at a time, longest first. They take all
sequences of one length at once and treat rows with equal room as one, so the work grows with the number of *different*
lengths, not of sequences. Both ask one question, "which is the first place with room for this length?", of a segment
tree: first-fit of rows in the order of their opening, best-fit of amounts of room in ascending order.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from trainwright.datasets.errors import DataError

if TYPE_CHECKING:
    import numpy as np

Algorithm = Literal["first_fit_decreasing", "best_fit"]


@dataclass(frozen=True)
class Packing:
    """Row r holds the sequences `order[offsets[r]:offsets[r + 1]]`.

    Sequences of a row ascend, and so do the first sequences of the rows: rows come in about the order of the data,
    not from the longest sequences to the shortest.
    """

    order: np.ndarray
    """Every sequence once: int64, shape [sequences]."""
    offsets: np.ndarray
    """int64, shape [rows + 1]."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def rows(self) -> list[np.ndarray]:
        """The sequences of each row."""
        import numpy as np

        return np.split(self.order, self.offsets[1:-1]) if len(self) else []


def pack(lengths: np.ndarray, capacity: int, algorithm: Algorithm) -> Packing:
    """Share sequences of `lengths` (integers, shape [sequences]) out to rows of `capacity`; the same way every time.

    Raises:
        DataError: a length that is not in 1..capacity.
    """
    import numpy as np

    lengths = np.asarray(lengths, dtype=np.int64)
    bad = np.flatnonzero((lengths < 1) | (lengths > capacity))
    if len(bad):
        raise DataError(f"sequence {bad[0]} has {lengths[bad[0]]} tokens; a packed row takes 1 to {capacity}")
    longest_first = np.argsort(-lengths, kind="stable")
    sizes, counts = np.unique(lengths, return_counts=True)
    groups = list(zip(sizes[::-1].tolist(), counts[::-1].tolist(), strict=True))
    place = {"first_fit_decreasing": _first_fit, "best_fit": _best_fit}[algorithm]
    row_of_place = place(groups, int(lengths.sum()), capacity)
    row_of = np.empty(len(lengths), dtype=np.int64)
    row_of[longest_first] = row_of_place
    return _in_order(row_of)


def _in_order(row_of: np.ndarray) -> Packing:
    """The packing in which sequence i is in row `row_of[i]`, its rows by their first sequences."""
    import numpy as np

    rows, first, number, counts = np.unique(row_of, return_index=True, return_inverse=True, return_counts=True)
    by_first = np.argsort(first)
    rank = np.empty(len(rows), dtype=np.int64)
    rank[by_first] = np.arange(len(rows))
    offsets = np.concatenate(([0], np.cumsum(counts[by_first]))).astype(np.int64)
    return Packing(np.argsort(rank[number], kind="stable"), offsets)


def _first_fit(groups: list[tuple[int, int]], total: int, capacity: int) -> np.ndarray:
    """Row of each sequence, longest first; `groups` are (length, number of sequences), longest first.

    Rows with equal room that follow one another are a run, which stands in the tree at its first row.
    """
    import numpy as np

    # No two rows are half empty: what is in the later one would have fitted the earlier one.
    most_rows = 2 * total // capacity + 1
    tree = _FirstWithRoom(most_rows)
    run_of: dict[int, int] = {}  # first row of a run -> its rows
    opened = 0
    placed: list[np.ndarray] = []
    for length, left in groups:
        while left:
            first = tree.find(length)
            if first is None:
                first, room = opened, capacity
                run_of[first] = -(-left // (capacity // length))
                opened += run_of[first]
            else:
                room = tree.room(first)
            rows, each = run_of.pop(first), room // length
            full = min(rows, left // each)
            rest = left - full * each if full < rows else 0
            placed.append(np.repeat(np.arange(first, first + full), each))
            placed.append(np.full(rest, first + full))
            tree.set(first, 0)
            for begin, end, now in (
                (0, full, room - each * length),
                (full, full + bool(rest), room - rest * length),
                (full + bool(rest), rows, room),
            ):
                if begin < end:
                    run_of[first + begin] = end - begin
                    tree.set(first + begin, now)
            left -= full * each + rest
    return np.concatenate(placed) if placed else np.empty(0, dtype=np.int64)


def _best_fit(groups: list[tuple[int, int]], _total: int, capacity: int) -> np.ndarray:
    """Row of each sequence, longest first. Rows with equal room stand in the tree at that room.

    A row that takes a sequence is the fullest that can take the next one of that length, so it takes all that fit.
    """
    import numpy as np

    tree = _FirstWithRoom(capacity + 1)
    rows_with: dict[int, deque[np.ndarray]] = {}  # room -> the rows that have it
    opened = 0
    placed: list[np.ndarray] = []

    def add(rows: np.ndarray, room: int) -> None:
        if len(rows):
            rows_with.setdefault(room, deque()).append(rows)
            tree.set(room, room)

    for length, left in groups:
        while left:
            room = tree.find(length)
            if room is None:
                room = capacity
                number = -(-left // (capacity // length))
                rows = np.arange(opened, opened + number)
                opened += number
            else:
                rows = rows_with[room].popleft()
                if not rows_with[room]:
                    tree.set(room, 0)
            each = room // length
            full = min(len(rows), left // each)
            rest = left - full * each if full < len(rows) else 0
            placed.append(np.repeat(rows[:full], each))
            placed.append(np.repeat(rows[full : full + 1], rest))
            add(rows[:full], room - each * length)
            add(rows[full : full + bool(rest)], room - rest * length)
            add(rows[full + bool(rest) :], room)
            left -= full * each + rest
    return np.concatenate(placed) if placed else np.empty(0, dtype=np.int64)


class _FirstWithRoom:
    """A segment tree: each place has some room, each node knows the most room of the places under it."""

    def __init__(self, places: int) -> None:
        self._leaves = 1 << max(places - 1, 0).bit_length()
        self._most = [0] * (2 * self._leaves)

    def room(self, place: int) -> int:
        return self._most[self._leaves + place]

    def set(self, place: int, room: int) -> None:
        most, node = self._most, self._leaves + place
        most[node] = room
        while node > 1:
            node >>= 1
            now = max(most[2 * node], most[2 * node + 1])
            if most[node] == now:
                return
            most[node] = now

    def find(self, room: int) -> int | None:
        """The first place with at least this much room (above 0)."""
        most, node = self._most, 1
        if most[1] < room:
            return None
        while node < self._leaves:
            node *= 2
            if most[node] < room:
                node += 1
        return node - self._leaves
