"""What is refused before a run over rows has ranks, and what the selectors say."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.datasets.sft_cases import write_jsonl

from trainwright.datasets import DataError, check_data
from trainwright.datasets.selectors import find_selector, selectors
from trainwright.datasets.sft.adapters import ADAPTERS
from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.planned import DATASETS_TO_COME
from trainwright.recipes.presets import ROW_KINDS

MakeConfig = Callable[..., ConfigContainer]
GOOD = {"input": "a", "output": "b"}


@pytest.fixture
def config_of(make_config: MakeConfig, tmp_path: Path) -> Callable[..., ConfigContainer]:
    """A configuration of `tmp_path/data`."""

    def make(**words: Any) -> ConfigContainer:
        fields = {"kind": "local-jsonl", "split": None, "dataset_root": str(tmp_path / "data")}
        return make_config(**{**fields, **words})

    return make


def test_good_rows_pass_and_their_index_is_there_for_the_run(config_of: Any, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "data" / "training.jsonl", [GOOD])
    write_jsonl(tmp_path / "data" / "validation.jsonl", [GOOD])
    check_data(config_of())
    assert (tmp_path / "data" / "trainwright-index-cache").is_dir()


BAD: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "a broken row": ([GOOD, {"input": "a"}], {}, "training.jsonl line 2: no column 'output'; it has input"),
    "a row that teaches nothing": (
        [GOOD, {"input": "a" * 40, "output": "b"}],
        {},
        "training.jsonl line 2: nothing is left to learn: 43 tokens were cut on the right to dataset.seq_length=16",
    ),
    "no row": ([], {}, "the train split has no rows"),
    "no folder": ([GOOD], {"dataset_root": "/no/folder"}, "dataset.dataset_root: /no/folder does not exist; it takes"),
    "no root": ([GOOD], {"dataset_root": None}, "dataset.dataset_root is not set: local-jsonl reads training.jsonl"),
    "too small for whole batches": (
        [GOOD],
        {"drop_last": True},
        "holds 1 samples, fewer than train.global",
    ),
    "no hub dataset": ([GOOD], {"kind": "squad"}, "dataset.hf_dataset is not set: squad reads the rows named there"),
    "a cache that cannot be": (
        [GOOD],
        {"path_to_cache": "/dev/null/x"},
        "/dev/null is not a folder; set dataset",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_a_run_could_not_read_is_refused_in_one_line(config_of: Any, tmp_path: Path, name: str) -> None:
    rows, words, says = BAD[name]
    write_jsonl(tmp_path / "data" / "training.jsonl", rows)
    write_jsonl(tmp_path / "data" / "validation.jsonl", [GOOD])
    with pytest.raises(DataError) as error:
        check_data(config_of(**words))
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 2


def test_a_file_under_two_names_is_refused(config_of: Any, tmp_path: Path) -> None:
    for name in ("training.jsonl", "training.jsonl.gz"):
        write_jsonl(tmp_path / "data" / name, [GOOD])
    with pytest.raises(DataError, match=r"holds training\.jsonl and training\.jsonl\.gz; keep one"):
        check_data(config_of())


def test_rows_to_skip_pass(config_of: Any, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "data" / "training.jsonl", [GOOD, {"input": "a"}, {"input": "a" * 40, "output": "b"}])
    words = {"broken_rows": "skip", "unsupervised_rows": "skip"}
    check_data(config_of(preprocessing=words, do_validation=False))


def test_of_many_rows_first_and_last_are_looked_at(config_of: Any, tmp_path: Path) -> None:
    """And 2000 in all: a check of 100,000 rows takes no longer than one of 2000."""
    write_jsonl(tmp_path / "data" / "training.jsonl", [GOOD] * 3000 + [{"input": "a"}])
    with pytest.raises(DataError, match=r"training\.jsonl line 3001: no column 'output'"):
        check_data(config_of(do_validation=False))


def test_checking_rows_loads_no_torch(tmp_path: Path) -> None:
    """Refusals come before anything heavy, chat templates aside."""
    write_jsonl(tmp_path / "training.jsonl", [GOOD])
    fields = {
        "model": {"num_layers": 1, "hidden_size": 8, "num_attention_heads": 1},
        "train": {"train_iters": 1, "global_batch_size": 1, "micro_batch_size": 1},
        "optimizer": {"lr": 1e-3},
        "tokenizer": {"tokenizer_type": "ByteLevelTokenizer"},
        "dataset": {
            "kind": "local-jsonl",
            "seq_length": 8,
            "split": None,
            "dataset_root": str(tmp_path),
            "do_validation": False,
        },
    }
    script = (
        "import sys, json\n"
        "from trainwright.datasets import check_data\n"
        "from trainwright.recipes.config import ConfigContainer\n"
        f"check_data(ConfigContainer.model_validate(json.loads({json.dumps(fields)!r})))\n"
        "print(sorted({'torch', 'megatron', 'transformers', 'datasets', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_selectors_are_those_of_recipes_and_each_kind_of_rows_has_an_adapter() -> None:
    assert set(ADAPTERS) == set(ROW_KINDS)
    found = {selector.name: selector for selector in selectors()}
    assert set(ROW_KINDS) < set(found)
    assert found["squad"].hub_id == "rajpurkar/squad"
    assert all((selector.hub_id is None) == (selector.licence is None) for selector in found.values())


@pytest.mark.parametrize("name", DATASETS_TO_COME)
def test_a_planned_selector_is_answered_as_such(name: str) -> None:
    with pytest.raises(DataError, match=f"{name} is not available yet; available: mock, "):
        find_selector(name)
