"""Prompt and completion: what is learnt, what is cut, what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.datasets.sft_cases import BYTES, chat_tokenizer, chat_words, local, process

from trainwright.datasets import Tokenizer
from trainwright.datasets.sft.dataset import shifted
from trainwright.datasets.sft.preprocess import Preprocessor, splitter
from trainwright.datasets.sft.rows import BrokenRow, UnsupervisedRow

EOD = 256


def ids_and_targets(row: dict[str, str], seq_length: int = 512, **preprocessing: Any) -> tuple[str, str]:
    """Ids as letters, `$` for the end; and below each whether it is learnt."""
    sequence = process(local(seq_length, **preprocessing), BYTES, row)
    letters = "".join("$" if token == EOD else chr(token) for token in sequence.ids.tolist())
    return letters, "".join(".x"[int(learn)] for learn in sequence.learn.tolist())


CASES: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "as it is": ({}, ("ask answer$", "...xxxxxxxx")),
    "no separator": ({"separator": ""}, ("askanswer$", "...xxxxxxx")),
    "another separator": ({"separator": "\n>"}, ("ask\n>answer$", "...xxxxxxxxx")),
    "no end": ({"add_eos": False}, ("ask answer", "...xxxxxxx")),
    "everything": ({"loss": "all"}, ("ask answer$", ".xxxxxxxxxx")),
    "just long enough": ({"seq_length": 10}, ("ask answer$", "...xxxxxxxx")),
    "cut on the right": ({"seq_length": 7}, ("ask answ", "...xxxxx")),
    "cut on the left": ({"seq_length": 8, "truncation_side": "left"}, ("k answer$", ".xxxxxxxx")),
    "cut into the completion": ({"seq_length": 3, "truncation_side": "left"}, ("wer$", ".xxx")),
    "other columns": (
        {"prompt_column": "question", "completion_column": "reply"},
        ("Who? I.$", "....xxxx"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_prompts_completions_and_ends(name: str) -> None:
    words, expected = CASES[name]
    row = {"input": "ask", "output": "answer", "question": "Who?", "reply": "I."}
    assert ids_and_targets(row, **words) == expected


def test_the_beginning_stays_where_the_left_is_cut(tmp_path: Path) -> None:
    tokenizer = chat_tokenizer(tmp_path, None, ("$", "^"), bos="^")
    words = local(4, add_bos=True, truncation_side="left", separator="")
    sequence = process(words, tokenizer, {"input": "ask", "output": "xyz"})
    assert tokenizer.bos is not None
    assert sequence.ids.tolist() == [tokenizer.bos, *tokenizer.tokenize("xyz"), tokenizer.eod]
    assert sequence.learn.tolist() == [False, True, True, True, True]


def test_tokens_labels_and_mask_are_shifted_by_one() -> None:
    """`loss_mask[i]` says that `labels[i]`, the token after `tokens[i]`, is learnt."""
    sample = shifted(process(local(), BYTES, {"input": "ab", "output": "c"}))
    assert sample["tokens"].tolist() == [*b"ab c"]
    assert sample["labels"].tolist() == [*b"b c", EOD]
    assert sample["loss_mask"].tolist() == [0, 1, 1, 1]
    assert {name: str(sample[name].dtype) for name in ("tokens", "labels", "loss_mask")} == {
        "tokens": "int64",
        "labels": "int64",
        "loss_mask": "float32",
    }


@given(
    prompt=st.text(max_size=8),
    completion=st.text(max_size=8),
    seq_length=st.integers(1, 20),
    side=st.sampled_from(["left", "right"]),
)
def test_what_is_cut_is_one_end(prompt: str, completion: str, seq_length: int, side: str) -> None:
    """Never longer than the sequence, never another order, and all that was cut is counted."""
    row = {"input": prompt, "output": completion}
    try:
        whole = process(local(10_000, truncation_side=side), BYTES, row)
        sequence = process(local(seq_length, truncation_side=side), BYTES, row)
    except (UnsupervisedRow, BrokenRow):
        return
    ids = whole.ids.tolist()
    assert len(sequence.ids) == min(len(ids), seq_length + 1)
    assert sequence.cut == len(ids) - len(sequence.ids)
    assert sequence.ids.tolist() == (ids[: seq_length + 1] if side == "right" else ids[-(seq_length + 1) :])


NOTHING = {
    "a prompt that fills it": (
        {"input": "x" * 20, "output": "y"},
        {"seq_length": 8},
        "23 tokens were cut on the r",
    ),
    "no completion and no end": (
        {"input": "x", "output": ""},
        {"add_eos": False, "separator": ""},
        "nothing to learn: none of its 1 tokens is a target",
    ),
    "nothing before the end": ({"input": "", "output": ""}, {"separator": ""}, "none of its 1 tokens is a target"),
}


@pytest.mark.parametrize("name", NOTHING)
def test_a_row_that_teaches_nothing_is_named_as_such(name: str) -> None:
    row, words, says = NOTHING[name]
    with pytest.raises(UnsupervisedRow) as error:
        process(local(**words), BYTES, row)
    assert says in str(error.value)


def test_half_of_a_character_is_no_text(tmp_path: Path) -> None:
    tokenizer = chat_tokenizer(tmp_path, None)
    with pytest.raises(BrokenRow, match=r"the text holds '\\ud800', half of a character"):
        process(local(), tokenizer, {"input": "a", "output": "\ud800"})


class Words(Tokenizer):
    """Merges "ab" into one token, also across the border between prompt and completion."""

    vocab_size, eod = 200, 199

    def __init__(self) -> None:
        self.unique_identifiers = {"class": "Words"}

    def tokenize(self, text: str) -> list[int]:
        return [150 if piece == "\0" else ord(piece) for piece in text.replace("ab", "\0")]

    def detokenize(self, ids: Any) -> str:
        return "".join("ab" if token == 150 else chr(token) for token in ids)


@pytest.mark.parametrize(
    ("prompt", "completion", "expected"),
    [
        ("x", "ab", ([120], [150])),
        ("xa", "b", ([120, 97], [98])),  # together they would be x, ab: a prompt that is never asked like that
        ("", "ab", ([], [150])),
    ],
)
def test_the_ids_of_the_prompt_are_those_it_has_alone(
    prompt: str, completion: str, expected: tuple[list[int], list[int]]
) -> None:
    assert splitter(Words())(prompt, completion) == expected


class Spaced(Words):
    """Puts a space in front of every text, as Llama 2's does."""

    def tokenize(self, text: str) -> list[int]:
        return super().tokenize(" " + text)


def test_a_space_that_the_tokenizer_puts_in_front_is_not_put_between() -> None:
    assert splitter(Spaced())("x", " ab") == ([32, 120], [32, 150])
    assert splitter(Spaced())("xa", "b") == ([32, 120, 97], [32, 98])


@given(first=st.text(max_size=12), second=st.text(max_size=12), separator=st.sampled_from(["", " ", "\n"]))
def test_texts_on_their_own_have_the_ids_of_one_text(
    letters: Tokenizer, first: str, second: str, separator: str
) -> None:
    """Where the tokenizer does not merge across the border."""
    try:
        ids = splitter(letters)(first, separator + second)
    except BrokenRow:
        return
    whole = letters.tokenize(first + separator + second)
    if whole[: len(ids[0])] == ids[0]:
        assert whole == ids[0] + ids[1]


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return chat_tokenizer(tmp_path_factory.mktemp("letters"), None)


def test_identity_holds_all_that_shapes_the_ids(tmp_path: Path) -> None:
    """And nothing else: how broken rows are treated does not."""
    tokenizer = chat_tokenizer(tmp_path, None, ("$", "^"), bos="^")

    def identity(seq_length: int = 64, **words: Any) -> str:
        return json.dumps(Preprocessor(local(seq_length, **words), tokenizer).identity, sort_keys=True)

    changes: list[dict[str, Any]] = [
        {"seq_length": 65},
        {"separator": ""},
        {"truncation_side": "left"},
        {"add_eos": False},
        {"add_bos": True},
        {"loss": "all"},
        {"prompt_column": "question"},
    ]
    assert len({identity(), *(identity(**change) for change in changes)}) == 1 + len(changes)
    assert identity() == identity(broken_rows="skip", unsupervised_rows="skip")
    assert json.dumps(Preprocessor(local(64), BYTES).identity, sort_keys=True) != identity()


def test_a_chat_is_cut_like_any_sequence(tmp_path: Path) -> None:
    tokenizer = chat_tokenizer(tmp_path, "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}")
    row = {"messages": [{"role": "user", "content": "xyz"}, {"role": "assistant", "content": "uvw"}]}
    words = chat_words(truncation_side="left").model_copy(update={"seq_length": 5})
    sequence = process(words, tokenizer, row)
    assert tokenizer.wrapped.decode(sequence.ids.tolist()) == "z<|im_end|>uvw<|im_end|>"  # type: ignore[attr-defined]
    assert sequence.learn.tolist() == [False, False, True, True, True, True]
