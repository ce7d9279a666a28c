"""From a row to token ids and to which of them are learnt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainwright.datasets.errors import DataError
from trainwright.datasets.sft.adapters import column
from trainwright.datasets.sft.rows import BrokenRow, Row, UnsupervisedRow
from trainwright.datasets.tokenizers import Tokenizer

if TYPE_CHECKING:
    import numpy as np

    from trainwright.recipes.config.data import DatasetConfig, PreprocessingConfig


@dataclass(frozen=True)
class Tokenized:
    """One sequence."""

    ids: np.ndarray
    """int64, shape [tokens]."""
    learn: np.ndarray
    """bool, shape [tokens]: whether that token is a target. The first one never is: nothing predicts it."""
    cut: int = 0
    """Tokens that were cut off because the sequence was too long."""


@dataclass(frozen=True)
class Style[T]:
    """One way to make token ids of a row, in two steps, of which the first costs little."""

    read: Callable[[Row], T]
    """What the columns say. Raises BrokenRow."""
    encode: Callable[[T], tuple[Sequence[int], np.ndarray]]
    """Ids of any length, and whether each is learnt. Raises BrokenRow for what tokenizer or template does not take."""
    identity: dict[str, object]
    """What the ids depend on besides `dataset.preprocessing` and the tokenizer."""
    keeps_first: bool = False
    """Whether the first id stays where a sequence is cut on the left."""


class Preprocessor:
    """What `dataset.preprocessing` describes, for rows in the shape that `adapters` give."""

    def __init__(self, dataset: DatasetConfig, tokenizer: Tokenizer) -> None:
        """Raises DataError: words that contradict each other, or that ask for what the tokenizer does not have."""
        words = dataset.preprocessing
        self._style: Style[Any]
        if words.style == "chat":
            from trainwright.datasets.sft.chat import chat

            self._style = chat(dataset, tokenizer)
        else:
            self._style = prompt_completion(words, tokenizer)
        self._longest, self._side = dataset.seq_length + 1, words.truncation_side
        self.identity = {
            "style": self._style.identity,
            "preprocessing": words.model_dump(exclude={"broken_rows", "unsupervised_rows", "chat_template"}),
            "seq_length": dataset.seq_length,
            "tokenizer": tokenizer.unique_identifiers,
        }
        """Everything that the ids depend on besides the row, as JSON values."""

    def check(self, row: Row) -> None:
        """Read the columns, and no more. Raises BrokenRow."""
        self._style.read(row)

    def __call__(self, row: Row) -> Tokenized:
        """At most `dataset.seq_length` + 1 tokens. Raises BrokenRow or UnsupervisedRow."""
        ids, learn = self._style.encode(self._style.read(row))
        return _cut(ids, learn, self._longest, self._side, keep_first=self._style.keeps_first)


def prompt_completion(words: PreprocessingConfig, tokenizer: Tokenizer) -> Style[tuple[str, str]]:
    """Begin, prompt, separator and completion, end.

    The separator is learnt with the completion: a byte-pair token most often begins with the space before a word.
    """
    import numpy as np

    if words.loss == "assistant":
        raise DataError(
            "dataset.preprocessing.loss=assistant needs style=chat; prompt-completion has completion or all"
        )
    if words.add_bos and tokenizer.bos is None:
        raise DataError("dataset.preprocessing.add_bos=true, but the tokenizer has no beginning-of-sequence token")
    begin = [tokenizer.bos] if words.add_bos and tokenizer.bos is not None else []
    end = [tokenizer.eod] if words.add_eos else []
    everything = words.loss == "all"
    split = splitter(tokenizer)

    def read(row: Row) -> tuple[str, str]:
        return column(row, words.prompt_column), column(row, words.completion_column)

    def encode(texts: tuple[str, str]) -> tuple[list[int], np.ndarray]:
        prompt_ids, completion_ids = split(texts[0], words.separator + texts[1])
        asked = [*begin, *prompt_ids]
        ids = [*asked, *completion_ids, *end]
        learn = np.ones(len(ids), dtype=bool)
        learn[: len(asked)] = everything
        return ids, learn

    return Style(read, encode, {"prompt-completion": 1, "begin": begin, "end": end}, keeps_first=words.add_bos)


Split = Callable[[str, str], tuple[list[int], list[int]]]
"""A prompt and what follows it -> the ids of each. Raises BrokenRow for what is no text."""


def splitter(tokenizer: Tokenizer) -> Split:
    """How to tokenize two texts so that their ids are those of one text, and the first text's ids those it has alone.

    Where both would merge across the border, each is tokenized on its own. Most tokenizers put nothing in front of a
    text: then each text on its own gives all that in half the time. One that puts a space there gets both at once.
    """

    def apart(first: str, second: str) -> tuple[list[int], list[int]]:
        return tokenizer.tokenize(first), tokenizer.tokenize(second)

    def together(first: str, second: str) -> tuple[list[int], list[int]]:
        alone, both = tokenizer.tokenize(first), tokenizer.tokenize(first + second)
        return (alone, both[len(alone) :]) if both[: len(alone)] == alone else (alone, tokenizer.tokenize(second))

    adds_nothing = all(apart(*texts) == together(*texts) for texts in _PROBES)
    split = apart if adds_nothing else together

    def checked(first: str, second: str) -> tuple[list[int], list[int]]:
        try:
            return split(first, second)
        except (UnicodeEncodeError, TypeError):
            raise BrokenRow(no_text(first + second)) from None

    return checked


_PROBES = (("a", " b"), ("a:", " b"), ("a", "\nb"), ("a\n", "b"))


def no_text(text: str) -> str:
    """Why the tokenizer refused it."""
    lone = next((sign for sign in text if "\ud800" <= sign <= "\udfff"), None)
    return f"the text holds {lone!r}, half of a character" if lone else "the tokenizer does not take the text"


def _cut(ids: Sequence[int], learn: np.ndarray, longest: int, side: str, *, keep_first: bool) -> Tokenized:
    import numpy as np

    whole, targets = np.asarray(ids, dtype=np.int64), learn
    cut = max(0, len(whole) - longest)
    if cut and side == "right":
        whole, targets = whole[:longest], targets[:longest]
    elif cut:
        first = int(keep_first)
        kept = np.r_[0:first, len(whole) - longest + first : len(whole)]
        whole, targets = whole[kept], targets[kept]
    targets[:1] = False
    if not targets.any():
        raise UnsupervisedRow(_nothing_to_learn(len(ids), bool(learn[1:].any()), cut, longest, side))
    return Tokenized(whole, targets, cut)


def _nothing_to_learn(tokens: int, had_targets: bool, cut: int, longest: int, side: str) -> str:
    if had_targets and cut:
        return (
            f"nothing is left to learn: {tokens} tokens were cut on the {side} to dataset.seq_length={longest - 1}; "
            "a longer sequence or dataset.preprocessing.truncation_side may help"
        )
    return f"nothing to learn: none of its {tokens} tokens is a target"
