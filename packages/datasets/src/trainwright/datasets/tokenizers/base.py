"""What every tokenizer here can do."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

NO_TOKEN = -1
"""The id that no text ever has. As `pad` it masks nothing that a corpus holds."""


class Tokenizer(ABC):
    """Text to token ids. Special tokens written out in a text are text: only `eod` ends a document."""

    vocab_size: int
    """Ids are in [0, vocab_size)."""
    eod: int
    """The id that ends a document."""
    pad: int = NO_TOKEN
    """The id of padding, or -1: never the id of something that a text can hold."""
    bos: int | None = None
    """The id that begins a sequence, where the vocabulary has one."""
    unique_identifiers: dict[str, object]
    """What the ids depend on, as JSON values: equal if and only if the same text gives the same ids."""

    @abstractmethod
    def tokenize(self, text: str) -> list[int]:
        """The ids of a text, without `eod`."""

    @abstractmethod
    def detokenize(self, ids: Sequence[int]) -> str:
        """The text of ids; `eod` and padding give no text."""

    def encode(self, document: bytes) -> np.ndarray:
        """The ids of a UTF-8 document as an int64 array of shape [tokens].

        Raises:
            UnicodeDecodeError: the document is not UTF-8.
        """
        import numpy as np

        return np.asarray(self.tokenize(document.decode("utf-8")), dtype=np.int64)


def content_hash(files: Iterable[Path]) -> str:
    """SHA-256 over names and contents of files, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(files, key=lambda path: path.name):
        data = path.read_bytes()
        digest.update(f"{path.name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()
