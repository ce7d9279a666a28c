"""`trainwright-data pack`: rows that the run of the same words finds."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.apps.sft_folder import PACKED, words, write

from trainwright_trainer.data import main

CACHE = "trainwright-index-cache"


def packed_folders(folder: Path) -> list[Path]:
    return sorted((folder / CACHE).glob("packed-*"))


def test_a_run_of_the_same_words_reads_what_was_packed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Overrides in another order and words that shape no data change nothing; the run tokenizes nothing."""
    from trainwright.datasets import build_datasets, build_tokenizer
    from trainwright.datasets.sft.dataset import SftDataset
    from trainwright.recipes import resolve
    from trainwright.recipes.words import parse

    said = words(write(tmp_path), *PACKED)
    assert main(["pack", *said, "--workers", "2"]) == 0
    made = packed_folders(tmp_path)
    assert [folder.name.split("-")[1] for folder in made] == ["train", "valid"]
    capsys.readouterr()

    def never(_self: object, _number: int) -> None:
        raise AssertionError("tokenized again")

    monkeypatch.setattr(SftDataset, "tokenized", never)
    command = parse([*reversed(PACKED), *said[:-2], "-ms", "700", "optimizer.lr=0.1"])
    config = resolve(
        command.selection, command.overrides, world_size=1, device="cpu", flags=command.flags, deterministic=False
    ).config
    train, valid = build_datasets(config, build_tokenizer(config.tokenizer), train_samples=14, valid_samples=4)
    assert train.fingerprint and valid is not None  # type: ignore[attr-defined]
    assert packed_folders(tmp_path) == made
    assert "packing" not in capsys.readouterr().err
    assert sorted((tmp_path / CACHE).glob(".*")) == []


def test_it_reports_what_is_kept_and_what_is_padding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Worked out by hand: row k has 2 or 3 bytes, a space, 3 k letters, "!" and the end, less the last id."""
    assert main(["pack", *words(write(tmp_path, rows=20), *PACKED), "--split", "train", "--workers", "1"]) == 0
    said, errors = capsys.readouterr()
    whole = [len(f"Q{k}") + 1 + 3 * k + 1 + 1 - 1 for k in range(1, 21)]
    tokens = sum(min(length, 64) for length in whole)
    cut = [length - 64 for length in whole if length > 64]
    (folder,) = packed_folders(tmp_path)
    assert errors == f"packing 20 samples into {folder}\n"
    first, *lines = said.splitlines()
    assert first == f"train: {folder}"
    report = dict(line.split(maxsplit=1) for line in lines)
    rows = json.loads((folder / "artifact.json").read_text())["arrays"]["offsets"][1] - 1
    assert report["rows"].startswith(f"{rows} of 64 tokens")
    assert report["kept"].startswith(f"{tokens / rows / 64:.2%} of all places: {tokens} tokens")
    assert report["padding"].endswith(f"0 tokens behind sequences, {rows * 64 - tokens} at the ends of rows")
    assert report["truncated"] == f"{len(cut)} of these sequences, by {sum(cut)} tokens in all"


def test_it_follows_the_topology_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """TP 2 with sequence parallelism and CP 2: multiples of 4."""
    monkeypatch.setenv("WORLD_SIZE", "4")
    parallel = ["-tp", "2", "-cp", "2", "model.sequence_parallel=true"]
    assert main(["pack", *words(write(tmp_path), *PACKED, *parallel), "--split", "valid"]) == 0
    assert "3, each padded to a multiple of 4" in capsys.readouterr().out


def test_the_histogram_is_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "lengths.png"
    assert main(["pack", *words(write(tmp_path / "data"), *PACKED), "--histogram", str(picture)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(picture)
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_skipped_rows_are_counted_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    with (tmp_path / "training.jsonl").open("a") as file:
        file.write(json.dumps({"input": "x" * 100, "output": "y"}) + "\n")
    skip = "dataset.preprocessing.unsupervised_rows=skip"
    assert main(["pack", *words(tmp_path, *PACKED, skip), "--split", "train"]) == 0
    said = capsys.readouterr().out
    assert f"left out    1 samples: {tmp_path / 'training.jsonl'} line 13: nothing is left to learn" in said


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ([], "dataset.enable_offline_packing is false, so a run of these words reads no packed rows; add "),
        ([*PACKED, "--split", "test", "dataset.do_test=false"], "--split test: dataset.do_test is false; add "),
        ([*PACKED, "--split", "tset"], "'tset' is not one of"),
        ([*PACKED, "--dry-run"], "--dry-run is for run-recipe; leave it out"),
        ([*PACKED, "--histogram", "{dir}/none/x.png"], "none/x.png: its folder does not exist"),
        ([*PACKED, "dataset.offline_packing_specs.algoritm=x"], "did you mean"),
        ([PACKED[0], "-mb", "2"], "needs train.micro_batch_size=1 (-mb), not 2"),
        ([*PACKED, "dataset.preprocessing.completion_column=answer"], "training.jsonl line 1: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_packed_is_one_line_and_code_2(
    more: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = words(write(tmp_path), *(word.format(dir=tmp_path) for word in more))
    assert main(["pack", *said]) == 2
    out, errors = capsys.readouterr()
    assert errors.startswith("trainwright-data: ")
    assert says in errors
    assert errors.count("\n") == 1
    assert out == ""
    assert packed_folders(tmp_path) == []


def test_a_cancelled_pack_leaves_nothing(tmp_path: Path) -> None:
    """SIGTERM while the workers are at it."""
    write(tmp_path, rows=3)
    row = json.dumps({"input": "How long?", "output": "so " * 200})
    (tmp_path / "training.jsonl").write_text(f"{row}\n" * 100_000)
    program = [sys.executable, "-c", "import sys; from trainwright_trainer.data import main; sys.exit(main())"]
    process = subprocess.Popen(
        [*program, "pack", *words(tmp_path, *PACKED, "dataset.seq_length=1024"), "--split", "train", "--workers", "2"],
        stderr=subprocess.PIPE,
        text=True,
    )
    while not any(path.stat().st_size for path in (tmp_path / CACHE).glob(".packed-*/tokens.bin")):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert said.splitlines()[-1] == "trainwright-data: stopped by SIGTERM; nothing was written"
    assert [path.name for path in (tmp_path / CACHE).iterdir() if "packed" in path.name] == []
