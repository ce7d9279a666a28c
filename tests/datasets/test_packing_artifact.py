"""Packed rows on disk: found by what went into them, built once, whole or not there."""

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.datasets.packing_cases import BYTES, MadeUp, packing_config

from trainwright.datasets import DataError
from trainwright.datasets.packing.dataset import PackedDataset
from trainwright.datasets.packing.offline import packed
from trainwright.datasets.packing.report import efficiency

LENGTHS = [5, 9, 17, 3, 8, 0, 12, 12, 6, 2] * 20
FORKED = multiprocessing.get_context("fork")


def build(
    folder: Path, dataset: MadeUp | None = None, *, size: int = 32, alignment: int = 4, **how: Any
) -> PackedDataset:
    words = {"workers": 1} | how
    algorithm = words.pop("algorithm", "best_fit")
    config = packing_config(size, alignment, algorithm)
    return packed(dataset or MadeUp(LENGTHS), config, BYTES, "train", folder=folder, **words)


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def content(rows: PackedDataset) -> list[list[int]]:
    return [rows[number]["tokens"][0].tolist() for number in range(len(rows))]


def never(_number: int) -> None:
    raise AssertionError("tokenized again")


def test_what_is_there_is_used_again(tmp_path: Path) -> None:
    first = build(tmp_path / "new" / "folder")
    again = build(tmp_path / "new" / "folder", MadeUp(LENGTHS, before=never))
    assert content(again) == content(first)
    assert again.fingerprint == first.fingerprint
    assert len(entries(tmp_path / "new" / "folder")) == 1


def test_the_number_of_workers_changes_nothing(tmp_path: Path) -> None:
    one, three = build(tmp_path / "a", workers=1), build(tmp_path / "b", workers=3)
    for name in ("tokens", "learn", "starts", "numbers", "order", "offsets"):
        files = [next((tmp_path / folder).iterdir()) / f"{name}.bin" for folder in "ab"]
        assert files[0].read_bytes() == files[1].read_bytes()
    assert one.fingerprint == three.fingerprint


@pytest.mark.parametrize(
    "other",
    [
        {"dataset": MadeUp(LENGTHS, fingerprint="other data")},
        {"size": 64},
        {"alignment": 8},
        {"algorithm": "first_fit_decreasing"},
    ],
    ids=str,
)
def test_what_shapes_the_rows_makes_another_artifact(tmp_path: Path, other: dict[str, Any]) -> None:
    first = build(tmp_path)
    assert build(tmp_path, **other).fingerprint != first.fingerprint
    assert len(entries(tmp_path)) == 2


@pytest.mark.parametrize("damage", ["cut off", "no description", "not JSON", "file missing"])
def test_a_damaged_artifact_is_made_again(tmp_path: Path, damage: str) -> None:
    wanted = content(build(tmp_path))
    (entry,) = tmp_path.iterdir()
    match damage:
        case "cut off":
            os.truncate(entry / "tokens.bin", 10)
        case "no description":
            (entry / "artifact.json").unlink()
        case "not JSON":
            (entry / "artifact.json").write_text('{"format": 1')
        case "file missing":
            (entry / "order.bin").unlink()
    assert content(build(tmp_path)) == wanted
    assert entries(tmp_path) == [entry.name]


def test_an_error_leaves_nothing_and_names_the_row(tmp_path: Path) -> None:
    def broken(number: int) -> None:
        if number == 150:
            raise DataError("training.jsonl line 151: no column 'output'")

    for workers in (1, 2):
        with pytest.raises(DataError, match="line 151"):
            build(tmp_path, MadeUp(LENGTHS, before=broken), workers=workers)
        assert entries(tmp_path) == []


def test_a_dataset_of_which_nothing_is_left_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none of 3 samples can be used"):
        build(tmp_path, MadeUp([0, 0, 0]))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"cannot be kept in .*file.*; set dataset\.path_to_cache"):
        build(tmp_path / "file")


def test_token_ids_above_16_bits_come_back(tmp_path: Path) -> None:
    class Large(MadeUp):
        def tokenized(self, number: int) -> Any:
            found = super().tokenized(number)
            assert not isinstance(found, str)
            found.ids[:] += 100_000
            return found

    config, tokenizer = packing_config(32, 1), type("Large", (), {"vocab_size": 128_256, "pad": -1, "eod": 128_001})()
    rows = packed(Large([9]), config, tokenizer, "train", folder=tmp_path, workers=1)
    assert rows[0]["tokens"][0, :8].min() >= 100_000
    assert rows[0]["tokens"][0, 8:].tolist() == [128_001] * 24


def test_the_report_counts_every_place(tmp_path: Path) -> None:
    dataset = MadeUp([9, 9, 9, 0, 33, 6])
    found = efficiency(build(tmp_path, dataset, alignment=8))
    assert (found.samples, found.sequences, found.rows) == (6, 5, 2)
    assert found.tokens == 8 + 8 + 8 + 32 + 5
    assert (found.alignment_padding, found.rest_padding) == (3, 0)
    assert found.supervised_tokens == 5 + 5 + 5 + 17 + 3
    assert (found.truncated_sequences, found.truncated_tokens) == (4, 1 + 2 + 1 + 2)  # samples 1, 2, 4, 5
    assert found.kept == 61 / 64
    assert found.left_out == ("line 3: nothing to learn",)


# Processes at once.


def _rank(folder: Path, slow: float, started: Any, results: Any, workers: int = 1) -> None:
    def before(number: int) -> None:
        started.set()
        if number == 100:
            time.sleep(slow)

    calls: list[int] = []

    def counted(number: int) -> None:
        calls.append(number)
        before(number)

    rows = build(folder, MadeUp(LENGTHS, before=counted), workers=workers)
    results.put((os.getpid(), len(calls), content(rows)))


def test_one_of_several_processes_builds_and_the_others_wait(tmp_path: Path) -> None:
    started, results = FORKED.Event(), FORKED.Queue()
    ranks = [FORKED.Process(target=_rank, args=(tmp_path, 0.5, started, results)) for _ in range(4)]
    for rank in ranks:
        rank.start()
    found = [results.get(timeout=60) for _ in ranks]
    for rank in ranks:
        rank.join(timeout=60)
    assert sorted(calls for _, calls, _ in found) == [0, 0, 0, len(LENGTHS)]
    assert all(rows == found[0][2] for _, _, rows in found)
    assert len(entries(tmp_path)) == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_when_the_builder_is_killed_another_takes_over(tmp_path: Path, workers: int) -> None:
    """Four begin at once; the one that builds is killed in the middle, and its workers end with it."""
    started, results = FORKED.Event(), FORKED.Queue()
    first = FORKED.Process(target=_rank, args=(tmp_path, 600, started, results, workers))
    first.start()
    assert started.wait(timeout=60)
    others = [FORKED.Process(target=_rank, args=(tmp_path, 0, FORKED.Event(), results)) for _ in range(3)]
    for rank in others:
        rank.start()
    time.sleep(0.3)
    assert results.empty()
    children = _children(first.pid)
    os.kill(first.pid or 0, signal.SIGKILL)
    found = [results.get(timeout=60) for _ in others]
    for rank in (first, *others):
        rank.join(timeout=60)
    assert sorted(calls for _, calls, _ in found) == [0, 0, len(LENGTHS)]
    assert all(rows == found[0][2] for _, _, rows in found)
    assert entries(tmp_path) == [f"packed-train-{build(tmp_path).fingerprint[:32]}"]
    assert len(children) == (workers if workers > 1 else 0)
    assert _until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))


def _failing(folder: Path, said: Any, go_on: Any, results: Any) -> None:
    calls: list[int] = []

    def before(number: int) -> None:
        calls.append(number)
        if number == 100:
            go_on.wait(timeout=60)
            raise DataError("training.jsonl line 101: not JSON")

    try:
        build(folder, MadeUp(LENGTHS, before=before), say=said.put)
    except DataError as error:
        results.put((len(calls), str(error)))


def test_the_error_of_the_builder_reaches_all_that_wait_for_it(tmp_path: Path) -> None:
    """Else each would read everything again, one after the other, to find the same broken row."""
    said, go_on, results = FORKED.Queue(), FORKED.Event(), FORKED.Queue()
    ranks = [FORKED.Process(target=_failing, args=(tmp_path, said, go_on, results)) for _ in range(3)]
    for rank in ranks:
        rank.start()
    lines = sorted(said.get(timeout=60).split(" /")[0] for _ in ranks)
    assert lines == ["packing 200 samples into", *["waiting for another process to pack"] * 2]
    go_on.set()
    found = sorted(results.get(timeout=60) for _ in ranks)
    for rank in ranks:
        rank.join(timeout=60)
    assert found == [(calls, "training.jsonl line 101: not JSON") for calls in (0, 0, 101)]
    assert entries(tmp_path) == []


def test_where_a_file_system_does_not_lock_the_first_rename_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two builders at once; the second finds the first one's artifact when it is done."""
    from trainwright.datasets.packing import once

    monkeypatch.setattr(once, "_lock", lambda file: once.Lock.UNKNOWN)
    inner: list[PackedDataset] = []

    def another(number: int) -> None:
        if number == 100 and not inner:
            inner.append(build(tmp_path))

    outer = build(tmp_path, MadeUp(LENGTHS, before=another))
    assert content(outer) == content(inner[0])
    assert len(entries(tmp_path)) == 1


def _children(pid: int | None) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _until(condition: Any, seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return bool(condition())
