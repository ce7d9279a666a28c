"""Packed rows: every sequence is in them, whole and apart from the others."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.datasets.packing_cases import BYTES, MadeUp, packing_config

from trainwright.datasets.packing.in_batch import pack_batch
from trainwright.datasets.packing.offline import packed
from trainwright.datasets.packing.rows import packed_row
from trainwright.datasets.sft.dataset import shifted
from trainwright.datasets.sft.preprocess import Tokenized
from trainwright.recipes.packing import alignment

TOPOLOGIES = [
    (tp, cp, sequence_parallel) for tp in (1, 2, 4) for cp in (1, 2, 4) for sequence_parallel in (False, True)
]
PAD = 256
lengths_of_ids = st.lists(st.integers(2, 33), min_size=1, max_size=12)


def sequences(lengths: list[int]) -> list[Tokenized]:
    made_up = MadeUp(lengths)
    return [found for number in range(len(made_up)) if not isinstance(found := made_up.tokenized(number), str)]


def check_layout(row: dict[str, Any], multiple: int) -> None:
    """What attention and context parallelism count on."""
    bounds, total = row["cu_seqlens"].tolist(), row["tokens"].shape[1]
    assert bounds[0] == 0
    assert bounds[-1] == total
    segments = np.diff(bounds)
    assert (segments > 0).all()
    assert (segments % multiple == 0).all()
    assert int(row["max_seqlen"]) == segments.max()
    assert row["position_ids"][0].tolist() == [place for segment in segments for place in range(segment)]
    assert {name: (value.shape, str(value.dtype)) for name, value in row.items() if name in "labels tokens"} == {
        name: ((1, total), "torch.int64") for name in ("tokens", "labels")
    }
    assert (row["loss_mask"].shape, str(row["loss_mask"].dtype)) == ((1, total), "torch.float32")


def check_contents(row: dict[str, Any], wanted: list[Tokenized]) -> None:
    """Each sequence stands whole at the beginning of its segment; all other places are padding that is not learnt."""
    starts = row["cu_seqlens"].tolist()
    left = np.ones(row["tokens"].shape[1], dtype=bool)
    for begin, sequence in zip(starts, wanted, strict=False):
        place = slice(begin, begin + len(sequence.ids) - 1)
        assert np.array_equal(row["tokens"][0, place], sequence.ids[:-1])
        assert np.array_equal(row["labels"][0, place], sequence.ids[1:])
        assert np.array_equal(row["loss_mask"][0, place], sequence.learn[1:])
        left[place] = False
    assert (row["tokens"][0][left] == PAD).all()
    assert (row["labels"][0][left] == PAD).all()
    assert (row["loss_mask"][0][left] == 0).all()


@pytest.mark.parametrize(("tp", "cp", "sequence_parallel"), TOPOLOGIES)
@given(lengths=lengths_of_ids)
@settings(max_examples=25)
def test_a_micro_batch_in_one_row_is_aligned_for_every_topology(
    tp: int, cp: int, sequence_parallel: bool, lengths: list[int]
) -> None:
    """Each rank's piece of a segment is a whole number of tokens: segments divide by 2 CP, and by CP TP with SP."""
    multiple = alignment(tp, cp, sequence_parallel, fp8=False)
    wanted = sequences(lengths)
    row = pack_batch([shifted(sequence) for sequence in wanted], PAD, length=None, multiple=multiple)
    check_layout(row, multiple)
    check_contents(row, wanted)
    segments = np.diff(row["cu_seqlens"])
    assert len(segments) == len(wanted)
    assert not cp > 1 or (segments % (2 * cp) == 0).all()
    assert not (sequence_parallel and tp > 1) or (segments % (cp * tp) == 0).all()


def test_a_row_of_fixed_size_ends_with_a_segment_of_padding() -> None:
    wanted = sequences([4, 6])
    row = pack_batch([shifted(sequence) for sequence in wanted], PAD, length=8, multiple=4)
    assert row["cu_seqlens"].tolist() == [0, 4, 12, 16]
    check_layout(row, 4)
    check_contents(row, wanted)


@pytest.mark.parametrize(("tp", "cp", "sequence_parallel"), TOPOLOGIES)
@given(lengths=lengths_of_ids, left_out=st.sets(st.integers(0, 11), max_size=2))
@settings(max_examples=4)
@example(lengths=[33] * 3, left_out=set())
@example(lengths=[2] * 5, left_out={1})
def test_offline_rows_hold_every_sequence_once_whole_and_aligned(
    tp: int, cp: int, sequence_parallel: bool, lengths: list[int], left_out: set[int]
) -> None:
    """Also lengths just below the size of a row, whose padding must not go beyond it."""
    multiple = alignment(tp, cp, sequence_parallel, fp8=False)
    dataset = MadeUp([*(0 if number in left_out else length for number, length in enumerate(lengths)), 3])
    with TemporaryDirectory() as folder:
        rows = packed(dataset, packing_config(32, multiple), BYTES, "train", folder=Path(folder), workers=1)
        found: list[int] = []
        for number in range(len(rows)):
            row = rows[number]
            members = rows.artifact.numbers[rows.artifact.sequences(number)].tolist()
            wanted = [sequence for member in members if not isinstance(sequence := dataset.tokenized(member), str)]
            check_layout(row, multiple)
            check_contents(row, wanted)
            assert row["tokens"].shape == (1, 32)
            assert rows.where(number) == tuple(f"line {member}" for member in members)
            assert rows.segment_lengths(number).tolist() == [len(sequence.ids) - 1 for sequence in wanted]
            found += members
        assert sorted(found) == [number for number, length in enumerate(dataset.lengths) if length]


@pytest.mark.parametrize(("size", "alignment"), [(7, 1), (12, 8)])
def test_a_row_that_is_too_small_is_an_error(size: int, alignment: int) -> None:
    samples = [shifted(sequence) for sequence in sequences([9])]
    with pytest.raises(ValueError, match=f"8 tokens in a row of {size}, aligned to {alignment}"):
        packed_row(samples, alignment=alignment, pad=PAD, size=size)
