"""Published datasets from a clone, from files and from a hub that cannot be reached."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.datasets.sft_cases import DATA, read_jsonl, write_jsonl

from trainwright.datasets import DataError
from trainwright.datasets.index_cache import IndexCache
from trainwright.datasets.sft.adapters import ADAPTERS
from trainwright.datasets.sft.hub import held_out, hub_rows
from trainwright.datasets.sft.rows import Rows
from trainwright.datasets.sft.sources import open_rows
from trainwright.recipes.config.data import HfDatasetConfig
from trainwright.recipes.presets import PRESETS, preset_dataset

CARD = """---
configs:
- config_name: main
  data_files:
  - split: train
    path: main/train-*
  - split: SWE_Rebench
    path: main/other-*
  default: true
- config_name: socratic
  data_files:
  - split: train
    path: socratic/train-*
---
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset repository with two configurations in Parquet, as the hub's own conversion lays it out."""
    import pyarrow
    import pyarrow.parquet

    folder = tmp_path_factory.mktemp("hub") / "gsm8k"
    for config, split, begin, count in [
        ("main", "train", 0, 20),
        ("main", "other", 50, 5),
        ("socratic", "train", 90, 2),
    ]:
        rows = [{"question": f"q{number}", "answer": f"a #### {number}"} for number in range(begin, begin + count)]
        (folder / config).mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(
            pyarrow.Table.from_pylist(rows), folder / config / f"{split}-00000-of-00001.parquet"
        )
    (folder / "README.md").write_text(CARD)
    return folder


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test asks the network."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., Rows]:
    """The rows of a split of a source."""

    def open_(path: Path | str, of: Any = "train", **words: Any) -> Rows:
        source = HfDatasetConfig.model_validate({"path": str(path), **words})
        return hub_rows(source, of, 5678, IndexCache(tmp_path / "cache"))

    return open_


def questions(rows: Rows) -> list[str]:
    return [rows[number]["question"] for number in range(len(rows))]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({}, range(20)),
        ({"name": "main"}, range(20)),
        ({"name": "socratic"}, range(90, 92)),
        ({"split": "SWE_Rebench[:3]"}, range(50, 53)),
        ({"split": "train[5:7]"}, range(5, 7)),
        ({"split": "train[-2:]"}, range(18, 20)),
        ({"split": "train[:10%]+SWE_Rebench[4:]"}, [0, 1, 54]),
    ],
    ids=str,
)
def test_a_clone_is_read_as_its_card_says(clone: Path, opened: Callable[..., Rows], words: Any, expected: Any) -> None:
    rows = opened(clone, **words)
    assert questions(rows) == [f"q{number}" for number in expected]
    assert " row " in rows.where(0)


def test_published_and_shared_out_splits(clone: Path, opened: Callable[..., Rows]) -> None:
    """A share of 10% is the same rows every time, and none of them is trained on."""
    assert len(opened(clone, "valid", validation_split="SWE_Rebench")) == 5
    assert len(opened(clone, "test", test_split="SWE_Rebench[:2]")) == 2
    train, valid = (questions(opened(clone, split, validation_proportion=0.1)) for split in ("train", "valid"))
    assert (len(train), len(valid)) == (18, 2)
    assert sorted(train + valid) == sorted(f"q{number}" for number in range(20))
    assert valid == questions(opened(clone, "valid", validation_proportion=0.1))


def test_the_shared_out_rows_are_the_same_in_every_version() -> None:
    """Worked out once with numpy's frozen RandomState: the first ceil(10 x 0.25) of a permutation, ascending."""
    train, valid = held_out(10, 0.25, seed=1234)
    assert valid.tolist() == [2, 7, 9]
    assert train.tolist() == [0, 1, 3, 4, 5, 6, 8]
    with pytest.raises(DataError, match=r"validation_proportion=0\.9 of 3 rows leaves none to train on"):
        held_out(3, 0.9, seed=1)


def test_a_file_is_the_split_that_is_trained_on_and_no_other(
    clone: Path, opened: Callable[..., Rows], tmp_path: Path
) -> None:
    """Else the rows held out would be the rows trained on."""
    parquet = clone / "main" / "train-00000-of-00001.parquet"
    lines = write_jsonl(tmp_path / "rows.jsonl", [{"question": f"q{number}"} for number in range(4)])
    (tmp_path / "rows.json").write_text(json.dumps([{"question": "q0"}]))
    assert len(opened(parquet)) == 20
    assert questions(opened(parquet, split="train_1M[:2]")) == ["q0", "q1"]
    assert questions(opened(lines, split="train[1:]", validation_split="train[:1]")) == ["q1", "q2", "q3"]
    assert questions(opened(lines, "valid", split="train[1:]", validation_split="train[:1]")) == ["q0"]
    assert questions(opened(tmp_path / "rows.json")) == ["q0"]
    with pytest.raises(DataError, match=r"split 'test' cannot be had: .*rows\.jsonl has the splits train"):
        opened(lines, "test", test_split="test")


def test_a_clone_of_json_lines_names_file_and_line(opened: Callable[..., Rows], tmp_path: Path) -> None:
    write_jsonl(tmp_path / "repo" / "train.jsonl", [{"question": "q"}])
    (tmp_path / "repo" / "train.jsonl").open("a").write("\n{broken\n")
    rows = opened(tmp_path / "repo")
    assert rows.where(1).endswith("train.jsonl line 3")


def test_changed_content_is_read_again_though_name_and_time_are_the_same(
    opened: Callable[..., Rows], tmp_path: Path
) -> None:
    """The library below would take the file for unchanged."""
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "train.parquet"
    found = []
    for question in ("one", "two"):
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"question": question}]), path)
        os.utime(path, ns=(1, 1))
        rows = opened(path)
        found.append((questions(rows), rows.fingerprint))
    assert [texts for texts, _ in found] == [["one"], ["two"]]
    assert found[0][1] != found[1][1]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a split that is not there": ({"split": "trian"}, "split 'trian' cannot be had: {clone} has the splits train"),
    "a slice that is none": ({"split": "train[a:b]"}, "split 'train[a:b]' cannot be had: "),
    "a configuration that is not there": ({"name": "man"}, "{clone} cannot be read: BuilderConfig 'man' not found"),
}


@pytest.mark.parametrize("name", BAD)
def test_words_that_a_clone_cannot_answer(clone: Path, opened: Callable[..., Rows], name: str) -> None:
    words, says = BAD[name]
    with pytest.raises(DataError) as error:
        opened(clone, **words)
    assert says.format(clone=clone) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("split", "says"),
    [
        ("valid", "neither dataset.hf_dataset.validation_split nor validation_proportion is set; without validation: "),
        ("test", "dataset.hf_dataset.test_split is not set"),
    ],
)
def test_a_split_that_nothing_describes_is_never_guessed(
    clone: Path, opened: Callable[..., Rows], split: str, says: str
) -> None:
    with pytest.raises(DataError, match=says):
        opened(clone, split)


def test_files_that_hold_no_rows_are_named(opened: Callable[..., Rows], tmp_path: Path) -> None:
    pointer = tmp_path / "train.parquet"
    pointer.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n")
    with pytest.raises(DataError, match="is a pointer of Git LFS and no data; `git lfs pull` fetches it"):
        opened(pointer)
    pointer.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(DataError, match=r"train\.parquet cannot be read: ") as error:
        opened(pointer)
    assert "\n" not in str(error.value)
    (tmp_path / "rows.csv").write_text("a,b\n")
    with pytest.raises(DataError, match=r"rows\.csv is none of \.jsonl, \.ndjson, \.json, \.parquet"):
        opened(tmp_path / "rows.csv")
    with pytest.raises(DataError, match=r"/no/rows\.jsonl does not exist"):
        opened("/no/rows.jsonl")


@pytest.mark.parametrize(("path", "hint"), [("rajpurkar/squad", ""), ("squad", "; ids have the form owner/name")])
def test_without_a_network_the_error_names_id_state_and_cache(path: str, hint: str) -> None:
    """In a process of its own: the library reads its environment once."""
    script = (
        "from trainwright.datasets.index_cache import IndexCache\n"
        "from trainwright.datasets.sft.hub import hub_rows\n"
        "from trainwright.recipes.config.data import HfDatasetConfig\n"
        "from pathlib import Path\n"
        f"try: hub_rows(HfDatasetConfig(path={path!r}), 'train', 1, IndexCache(Path('x')))\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": "/nowhere/cache"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"DataError dataset.hf_dataset.path: {path} is no file or folder here")
    assert "offline (HF_HUB_OFFLINE); cache /nowhere/cache" in line
    assert hint in line


@pytest.mark.parametrize("kind", [name for name, preset in PRESETS.items() if preset.hub_id])
def test_every_preset_reads_a_local_file_of_the_same_shape(kind: str, tmp_path: Path) -> None:
    """With the words of its preset, only the path being another; caches go beside the file."""
    file = tmp_path / "rows.jsonl"
    file.write_bytes((DATA / f"{kind.removesuffix('-thinking')}.jsonl").read_bytes())
    source = {**PRESETS[kind].fields["hf_dataset"], "path": str(file), "validation_proportion": None}
    (rows,) = open_rows(preset_dataset(kind, 64, hf_dataset=source), "train").sources
    assert [ADAPTERS[kind](rows[number]) for number in range(len(rows))] == [
        ADAPTERS[kind](row) for row in read_jsonl(file)
    ]
    assert (tmp_path / "trainwright-index-cache").is_dir()
