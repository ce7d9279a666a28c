"""Tokenizers that need no file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainwright.datasets.errors import DataError
from trainwright.datasets.tokenizers.base import Tokenizer

if TYPE_CHECKING:
    import numpy as np


class ByteLevelTokenizer(Tokenizer):
    """Ids 0 to 255 are the bytes of UTF-8 text, 256 ends a document.

    A byte that is not UTF-8 stands in a text as a lone surrogate (Python's `surrogateescape`), so that every
    file comes back byte for byte.
    """

    vocab_size = 257
    eod = 256

    def __init__(self) -> None:
        self.unique_identifiers = {"class": "ByteLevelTokenizer"}

    def tokenize(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "surrogateescape"))

    def detokenize(self, ids: Sequence[int]) -> str:
        return bytes(i for i in ids if 0 <= i < 256).decode("utf-8", "surrogateescape")

    def encode(self, document: bytes) -> np.ndarray:
        import numpy as np

        return np.frombuffer(document, dtype=np.uint8)


class NullTokenizer(Tokenizer):
    """Only counts: a text is decimal ids separated by white space; the last id of the vocabulary ends a document."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size
        self.eod = vocab_size - 1
        self.unique_identifiers = {"class": "NullTokenizer", "vocab_size": vocab_size}

    def tokenize(self, text: str) -> list[int]:
        return [self._id(word) for word in text.split()]

    def detokenize(self, ids: Sequence[int]) -> str:
        return " ".join(str(i) for i in ids if i != self.eod and i != self.pad)

    def _id(self, word: str) -> int:
        if not (word.isascii() and word.isdigit()) or int(word) >= self.vocab_size:
            raise DataError(f"NullTokenizer reads ids from 0 to {self.vocab_size - 1}, not {word[:40]!r}")
        return int(word)
