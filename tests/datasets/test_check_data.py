"""What is refused before a run has ranks."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainwright.datasets import DataError, check_data
from trainwright.datasets.prepare import prepare
from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.data import TokenizerConfig

MakeConfig = Callable[..., ConfigContainer]


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    """Fifty documents of 100 bytes, byte level."""
    source = tmp_path / "text.txt"
    source.write_text("\n".join("x" * 100 for _ in range(50)))
    prepare([source], tmp_path / "corpus", TokenizerConfig(tokenizer_type="ByteLevelTokenizer"), document="line")
    return str(tmp_path / "corpus")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"data_path": "x"}, "dataset.data_path is set, but dataset.kind=mock reads no files"),
        ({"valid_data_path": "x"}, "dataset.valid_data_path is set, but dataset.kind=mock"),
        ({"split": "90,abc5,5"}, "'abc5' is not a share"),
        ({"split": "0,1"}, "the train split has no data: dataset.split='0,1'"),
        ({"split": None}, "dataset.split is not set"),
        ({"random_seed": 2**32}, "dataset.random_seed=4294967296 is too large"),
        ({"tokenizer": {"tokenizer_type": "NullTokenizer"}}, "tokenizer.vocab_size is not set"),
        ({"tokenizer": {"tokenizer_type": "NullTokenizer", "vocab_size": 1}}, "at least 2 tokens"),
    ],
    ids=str,
)
def test_mock_data_takes_no_words_that_it_would_ignore(make_config: MakeConfig, words: Any, says: str) -> None:
    with pytest.raises(DataError) as error:
        check_data(make_config(**words))
    assert says in str(error.value)


def test_indexed_data_without_a_prefix_never_becomes_mock(make_config: MakeConfig) -> None:
    with pytest.raises(DataError, match=r"dataset.data_path is not set: megatron-indexed reads"):
        check_data(make_config(kind="megatron-indexed"))


def test_a_validation_split_is_asked_for_only_by_a_run_that_validates(make_config: MakeConfig, corpus: str) -> None:
    words = {"kind": "megatron-indexed", "data_path": corpus, "split": "1"}
    check_data(make_config(**words))
    check_data(make_config(**words, validation={"eval_interval": 5, "eval_iters": 0}))
    with pytest.raises(DataError, match=r"the valid split has no data: dataset.split='1' gives it nothing"):
        check_data(make_config(**words, validation={"eval_interval": 5, "eval_iters": 1}))
    with pytest.raises(DataError, match=r"the valid split has no data: dataset.valid_data_path is not set"):
        check_data(
            make_config(
                kind="megatron-indexed", train_data_path=corpus, validation={"eval_interval": 5, "eval_iters": 1}
            )
        )


def test_a_model_smaller_than_the_vocabulary_is_refused(make_config: MakeConfig) -> None:
    config = make_config()
    small = config.model_copy(update={"model": config.model.model_copy(update={"vocab_size": 256})})
    with pytest.raises(DataError, match=r"model.vocab_size=256 is smaller than the tokenizer's vocabulary, 257"):
        check_data(small)


def test_data_of_another_tokenizer_is_refused_even_where_its_ids_would_fit(
    make_config: MakeConfig, corpus: str, tiktoken_file: Path
) -> None:
    """The ids would be read as other text, with nothing but a strange loss to show for it."""
    tokenizer = {"tokenizer_type": "TikTokenizer", "tokenizer_model": str(tiktoken_file)}
    words = {"kind": "megatron-indexed", "data_path": corpus, "split": "1", "tokenizer": tokenizer}
    with pytest.raises(DataError, match=r"was prepared with ByteLevelTokenizer, this run reads it with TikTokenizer"):
        check_data(make_config(**words))
    Path(f"{corpus}.prepare.json").unlink()
    check_data(make_config(**words))


def test_a_description_of_a_replaced_index_says_nothing(
    make_config: MakeConfig, corpus: str, tiktoken_file: Path
) -> None:
    other = tiktoken_file.with_name("other")
    prepare([tiktoken_file], other, TokenizerConfig(tokenizer_type="ByteLevelTokenizer"))
    for suffix in (".bin", ".idx"):
        os.replace(f"{other}{suffix}", f"{corpus}{suffix}")
    tokenizer = {"tokenizer_type": "TikTokenizer", "tokenizer_model": str(tiktoken_file)}
    check_data(make_config(kind="megatron-indexed", data_path=corpus, split="1", tokenizer=tokenizer))


def test_a_cache_that_cannot_be_kept_is_refused_before_the_run(
    make_config: MakeConfig, corpus: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    config = make_config(
        kind="megatron-indexed", data_path=corpus, split="1", path_to_cache=str(tmp_path / "file" / "c")
    )
    with pytest.raises(DataError, match=r"file is not a folder; set dataset.path_to_cache"):
        check_data(config)


def test_a_read_only_data_folder_asks_for_a_cache_folder(
    make_config: MakeConfig, corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write anywhere, so for root the answer of the system is replaced."""
    if os.geteuid() == 0:
        monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(tmp_path))
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(DataError, match=r"is not writable; set dataset\.path_to_cache"):
            check_data(make_config(kind="megatron-indexed", data_path=corpus, split="1"))
        check_data(make_config(kind="megatron-indexed", data_path=corpus, split="1", path_to_cache="/tmp"))
    finally:
        tmp_path.chmod(0o700)


def test_importing_and_checking_cost_no_torch() -> None:
    """Refusals come before anything heavy is loaded."""
    script = (
        "import sys, trainwright.datasets\n"
        "heavy = {'torch', 'megatron', 'transformers', 'numpy', 'rich', 'tiktoken', 'zstandard', 'pydantic'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
