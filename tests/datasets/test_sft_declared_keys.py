"""What recipes say that a kind of dataset consumes is what its builder asks for."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.datasets.sft_cases import DATA, PLAIN, save_chat_tokenizer, write_jsonl

from trainwright.datasets import build_datasets, build_loader, build_tokenizer
from trainwright.recipes import Selection, resolve
from trainwright.recipes.presets import DATASET_KWARGS, ROW_KINDS

STYLES = {kind: ("prompt-completion", "chat") if kind == "local-jsonl" else (None,) for kind in ROW_KINDS}


class Asked(dict[str, Any]):
    """A dictionary that remembers which keys it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.keys_asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.keys_asked.add(key)
        return default

    def __contains__(self, key: object) -> bool:
        self.keys_asked.add(str(key))
        return False


@pytest.fixture(scope="module")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_chat_tokenizer(tmp_path_factory.mktemp("tokenizer"), PLAIN)


@pytest.mark.parametrize("kind", ROW_KINDS)
def test_a_builder_asks_for_the_declared_keys_and_no_others(kind: str, tmp_path: Path, tokenizer_folder: Path) -> None:
    """From a file of the kind's shape to the first batch, in each style that it has."""
    asked: set[str] = set()
    for style in STYLES[kind]:
        kwargs = Asked()
        words = [*source(kind, style, tmp_path), f"tokenizer.tokenizer_model={tokenizer_folder}"]
        resolved = resolve(
            Selection(recipe="llama32_1b_sft_config", dataset=kind), words, world_size=1, device="cpu"
        ).config
        config = resolved.model_copy(update={"dataset": resolved.dataset.model_copy(update={"dataset_kwargs": kwargs})})
        train, _ = build_datasets(config, build_tokenizer(config.tokenizer), train_samples=8, valid_samples=0)
        next(
            build_loader(
                train,
                config,
                consumed_samples=0,
                data_parallel_rank=0,
                data_parallel_size=1,
                micro_batch_size=1,
            )
        )
        asked |= kwargs.keys_asked
    assert asked == DATASET_KWARGS[kind]


def source(kind: str, style: str | None, folder: Path) -> list[str]:
    """The words that name rows of the kind's shape."""
    common = ["dataset.do_validation=false", f"dataset.path_to_cache={folder / 'cache'}"]
    if kind == "local-jsonl":
        row = {"input": "a", "output": "b", "messages": [{"role": "user", "content": "a"}]}
        row["messages"] += [{"role": "assistant", "content": "b"}]
        root = write_jsonl(folder / str(style) / "training.jsonl", [row]).parent
        return [*common, f"dataset.dataset_root={root}", f"dataset.preprocessing.style={style}"]
    file = DATA / f"{kind.removesuffix('-thinking')}.jsonl"
    copy = shutil.copy(file, folder / file.name)
    return [*common, f"dataset.hf_dataset.path={copy}", "dataset.hf_dataset={name:null,validation_proportion:null}"]
