"""Bin packing: what the textbook says, whatever the lengths."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trainwright.datasets import DataError
from trainwright.datasets.packing.algorithms import Algorithm, pack

ALGORITHMS: list[Algorithm] = ["first_fit_decreasing", "best_fit"]


@st.composite
def lengths_and_capacity(draw: st.DrawFn) -> tuple[list[int], int]:
    capacity = draw(st.integers(1, 60))
    return draw(st.lists(st.integers(1, capacity), max_size=80)), capacity


def one_at_a_time(lengths: list[int], capacity: int, algorithm: Algorithm) -> list[list[int]]:
    """The textbook: longest first (of equal ones the earlier), each into the row that the rule names."""
    rows: list[list[int]] = []
    room: list[int] = []
    for sequence in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        fitting = [row for row in range(len(rows)) if room[row] >= lengths[sequence]]
        if not fitting:
            rows.append([])
            room.append(capacity)
            fitting = [len(rows) - 1]
        row = fitting[0] if algorithm == "first_fit_decreasing" else min(fitting, key=lambda row: room[row])
        rows[row].append(sequence)
        room[row] -= lengths[sequence]
    return rows


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(case=lengths_and_capacity())
@example(case=([], 7))
@example(case=([3, 3, 2, 2, 2], 6))
def test_every_sequence_is_in_one_row_and_no_row_overflows(algorithm: Algorithm, case: tuple[list[int], int]) -> None:
    lengths, capacity = case
    rows = [row.tolist() for row in pack(np.array(lengths, dtype=np.int64), capacity, algorithm).rows()]
    assert sorted(sequence for row in rows for sequence in row) == list(range(len(lengths)))
    assert all(0 < sum(lengths[i] for i in row) <= capacity for row in rows)


@given(case=lengths_and_capacity())
def test_first_fit_gives_the_rows_of_the_textbook(case: tuple[list[int], int]) -> None:
    lengths, capacity = case
    rows = pack(np.array(lengths, dtype=np.int64), capacity, "first_fit_decreasing").rows()
    wanted = one_at_a_time(lengths, capacity, "first_fit_decreasing")
    assert sorted(row.tolist() for row in rows) == sorted(sorted(row) for row in wanted)


@given(case=lengths_and_capacity())
def test_best_fit_fills_rows_as_the_textbook_does(case: tuple[list[int], int]) -> None:
    """Which of two equally full rows takes a sequence is open, and which of two equal sequences; what fills is not."""
    lengths, capacity = case
    rows = pack(np.array(lengths, dtype=np.int64), capacity, "best_fit").rows()
    wanted = one_at_a_time(lengths, capacity, "best_fit")
    filled = sorted(sum(lengths[i] for i in row) for row in rows)
    assert filled == sorted(sum(lengths[i] for i in row) for row in wanted)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(case=lengths_and_capacity())
def test_rows_and_their_sequences_come_in_the_order_of_the_data(
    algorithm: Algorithm, case: tuple[list[int], int]
) -> None:
    rows = [row.tolist() for row in pack(np.array(case[0], dtype=np.int64), case[1], algorithm).rows()]
    assert all(row == sorted(row) for row in rows)
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_many_sequences_leave_little_room(algorithm: Algorithm) -> None:
    """And are packed the same way twice."""
    lengths = np.random.RandomState(0).randint(1, 1025, size=50_000)
    first, second = (pack(lengths, 4096, algorithm) for _ in range(2))
    assert lengths.sum() / (len(first) * 4096) > 0.999
    assert np.array_equal(first.order, second.order)
    assert np.array_equal(first.offsets, second.offsets)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("lengths", "named"), [([3, 9], "sequence 1 has 9 tokens"), ([0], "sequence 0 has 0 tokens")])
def test_a_sequence_that_fits_no_row_is_named(algorithm: Algorithm, lengths: list[int], named: str) -> None:
    with pytest.raises(DataError, match=f"{named}; a packed row takes 1 to 8"):
        pack(np.array(lengths), 8, algorithm)
