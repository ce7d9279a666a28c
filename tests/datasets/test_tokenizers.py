"""Text to ids and back, from local files."""

import base64
import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.datasets import DataError, Tokenizer, build_tokenizer
from trainwright.datasets.tokenizers.tiktoken_file import FAMILIES
from trainwright.recipes.config.data import TokenizerConfig


def build(kind: str, model: Path | str | None = None, vocab_size: int | None = None) -> Tokenizer:
    words = {"tokenizer_type": kind, "tokenizer_model": model and str(model), "vocab_size": vocab_size}
    return build_tokenizer(TokenizerConfig.model_validate(words))


@pytest.fixture(scope="module")
def all_kinds(tmp_path_factory: pytest.TempPathFactory, huggingface_folder: Path) -> list[Tokenizer]:
    ranks = tmp_path_factory.mktemp("ranks") / "all_bytes"
    ranks.write_text("".join(f"{base64.b64encode(bytes([byte])).decode()} {byte}\n" for byte in range(256)))
    return [
        build("ByteLevelTokenizer"),
        build("HuggingFaceTokenizer", huggingface_folder),
        build("TikTokenizer", ranks),
    ]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_text_comes_back_and_ids_are_in_the_vocabulary(all_kinds: list[Tokenizer], text: str) -> None:
    """The end of a document is never an id of text, whatever the text says."""
    for tokenizer in all_kinds:
        ids = tokenizer.tokenize(text + "<|endoftext|>")
        assert tokenizer.detokenize([*ids, tokenizer.eod, tokenizer.pad]) == text + "<|endoftext|>"
        assert all(0 <= i < tokenizer.vocab_size for i in [*ids, tokenizer.eod])
        assert tokenizer.eod not in ids
        assert tokenizer.encode((text + "<|endoftext|>").encode()).tolist() == ids


def test_byte_level_has_the_ids_that_everyone_knows() -> None:
    tokenizer = build("ByteLevelTokenizer")
    assert tokenizer.tokenize("é") == [0xC3, 0xA9]
    assert (tokenizer.vocab_size, tokenizer.eod, tokenizer.pad) == (257, 256, -1)


def test_null_counts_up_to_its_size() -> None:
    tokenizer = build("NullTokenizer", vocab_size=10)
    assert (tokenizer.vocab_size, tokenizer.eod) == (10, 9)
    assert tokenizer.tokenize(" 3\n0 9") == [3, 0, 9]
    assert tokenizer.detokenize([3, 0, 9]) == "3 0"
    for word in ("10", "-1", "x", "٣"):
        with pytest.raises(DataError, match="reads ids from 0 to 9"):
            tokenizer.tokenize(word)


def test_a_bare_tokenizer_json_is_the_folder_it_stands_in(huggingface_folder: Path, tmp_path: Path) -> None:
    """Which token ends a document is found among the usual ones."""
    shutil.copy(huggingface_folder / "tokenizer.json", tmp_path)
    folder, file = (
        build("HuggingFaceTokenizer", huggingface_folder),
        build("HuggingFaceTokenizer", tmp_path / "tokenizer.json"),
    )
    assert folder.tokenize("the mat") == file.tokenize("the mat")
    assert folder.eod == file.eod
    assert folder.unique_identifiers == file.unique_identifiers


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_ids_are_those_of_transformers(huggingface_folder: Path, all_kinds: list[Tokenizer], text: str) -> None:
    """Its own call, which counts characters as well, gives the same."""
    theirs = transformers_tokenizer(huggingface_folder)(text, add_special_tokens=False, split_special_tokens=True)
    assert all_kinds[1].tokenize(text) == theirs["input_ids"]


@cache
def transformers_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(folder), local_files_only=True)


def test_truncation_saved_with_a_tokenizer_cuts_no_document(huggingface_folder: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Rust

    rust = Rust.from_file(str(huggingface_folder / "tokenizer.json"))
    rust.enable_truncation(4)
    rust.enable_padding(length=9)
    rust.save(str(tmp_path / "tokenizer.json"))
    assert len(build("HuggingFaceTokenizer", tmp_path / "tokenizer.json").tokenize("x" * 50)) == 50


def test_a_tokenizer_is_known_by_its_content(huggingface_folder: Path, tmp_path: Path) -> None:
    """The same in another place; another after a change."""
    copy = tmp_path / "copy"
    shutil.copytree(huggingface_folder, copy)
    original = build("HuggingFaceTokenizer", huggingface_folder).unique_identifiers
    assert build("HuggingFaceTokenizer", copy).unique_identifiers == original
    config = json.loads((copy / "tokenizer_config.json").read_text())
    (copy / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": "{{ messages }}"}))
    assert build("HuggingFaceTokenizer", copy).unique_identifiers == original
    text = (copy / "tokenizer.json").read_text()
    (copy / "tokenizer.json").write_text(text.replace('"add_prefix_space": false', '"add_prefix_space": true'))
    assert build("HuggingFaceTokenizer", copy).unique_identifiers != original


def test_published_tiktoken_files_get_what_they_leave_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pattern, end of text and size are those of the library's own definitions."""
    from tiktoken_ext import openai_public

    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *_args, **_words: {})
    published = {50256: "r50k_base", 50280: "p50k_base", 100256: "cl100k_base", 199998: "o200k_base"}
    for ranks, name in published.items():
        theirs = getattr(openai_public, name)()
        special = theirs["special_tokens"]
        assert FAMILIES[ranks].pattern == theirs["pat_str"]
        assert FAMILIES[ranks].eod == special["<|endoftext|>"]
        assert FAMILIES[ranks].vocab_size == 1 + max(max(special.values()), ranks - (name != "p50k_base"))


BAD: dict[str, tuple[str, Callable[[Path], Any], str]] = {
    "no file named": ("TikTokenizer", lambda _: None, "tokenizer.tokenizer_model is not set: TikTokenizer needs"),
    "no such file": ("TikTokenizer", lambda folder: folder / "x", "/x does not exist; TikTokenizer needs"),
    "a folder of ranks": ("TikTokenizer", lambda folder: folder, "is a folder, TikTokenizer needs a vocabulary file"),
    "not ranks": (
        "TikTokenizer",
        lambda folder: write(folder / "x", "IQ== 0\noops\n"),
        ":2: not `<base64> <rank>`: b'oops'",
    ),
    "not all bytes": ("TikTokenizer", lambda folder: write(folder / "x", "IQ== 0\n"), "byte 0 has no rank"),
    "an empty folder": ("HuggingFaceTokenizer", lambda folder: folder, "is no Hugging Face tokenizer: "),
    "not a tokenizer": (
        "HuggingFaceTokenizer",
        lambda folder: write(folder / "t.json", "{"),
        "is no Hugging Face tokenizer: ",
    ),
    "no such folder": ("HuggingFaceTokenizer", lambda folder: folder / "x", "tokenizer.json or a hub id"),
    "Null without a size": ("NullTokenizer", lambda _: None, "tokenizer.vocab_size is not set"),
}


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", BAD)
def test_a_tokenizer_that_cannot_be_had_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    kind, model, says = BAD[name]
    with pytest.raises(DataError) as error:
        build(kind, model(tmp_path))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub, with no way to the hub."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def test_a_hub_id_is_read_from_the_cache_like_its_folder(hub_cache: Path, huggingface_folder: Path) -> None:
    repository, revision = hub_cache / "models--org--model", "0" * 40
    shutil.copytree(huggingface_folder, repository / "snapshots" / revision)
    write(make(repository / "refs") / "main", revision)
    assert build("HuggingFaceTokenizer", "org/model").unique_identifiers == (
        build("HuggingFaceTokenizer", huggingface_folder).unique_identifiers
    )


def test_a_folder_called_like_a_repository_comes_first(
    hub_cache: Path, huggingface_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(huggingface_folder, tmp_path / "org" / "model")
    monkeypatch.chdir(tmp_path)
    assert build("HuggingFaceTokenizer", "org/model").vocab_size


def test_a_hub_id_that_cannot_be_fetched_names_itself_and_the_cache(hub_cache: Path) -> None:
    with pytest.raises(DataError) as error:
        build("HuggingFaceTokenizer", "org/model")
    message = str(error.value)
    assert "org/model is no local folder" in message and str(hub_cache) in message and "HF_HUB_OFFLINE" in message
    assert "\n" not in message


def make(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def test_a_tokenizer_without_an_end_is_refused(huggingface_folder: Path, tmp_path: Path) -> None:
    text = (huggingface_folder / "tokenizer.json").read_text()
    with pytest.raises(DataError, match="names no end-of-sequence token; set eos_token"):
        build("HuggingFaceTokenizer", write(tmp_path / "tokenizer.json", text.replace("<|endoftext|>", "<|unusual|>")))
