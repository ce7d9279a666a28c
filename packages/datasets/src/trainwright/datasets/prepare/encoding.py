"""From chunks to token ids. Runs in the workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from trainwright.datasets.errors import DataError
from trainwright.datasets.prepare.reading import Chunk, Piece

if TYPE_CHECKING:
    import numpy as np

    from trainwright.datasets.tokenizers import Tokenizer

_JSON_TYPES = {
    dict: "an object",
    list: "a list",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


@dataclass(frozen=True)
class Encoded:
    """The documents of one chunk."""

    tokens: np.ndarray
    """Ids of all documents, one after the other, in the type of the `.bin`: shape [tokens]."""
    lengths: np.ndarray
    """Ids of each document: int32, shape [documents]."""
    empty: int
    """Documents left out because they hold no token."""
    text_bytes: int
    """UTF-8 bytes of the documents kept."""


class Encoder:
    """Encodes chunks; one for each worker."""

    def __init__(self, tokenizer: Tokenizer, *, dtype: str, json_key: str, append_eod: bool) -> None:
        self._tokenizer = tokenizer
        self._dtype = dtype
        self._json_key = json_key
        self._append_eod = append_eod

    def encode(self, chunk: Chunk) -> Encoded:
        """All documents of a chunk.

        Raises:
            DataError: a document that is not what it should be, with file and line.
        """
        import numpy as np

        end = np.full(int(self._append_eod), self._tokenizer.eod, dtype=self._dtype)
        parts: list[np.ndarray] = []
        lengths: list[int] = []
        empty = text_bytes = 0
        for piece in chunk.pieces:
            for line, document in self._documents(piece):
                ids = self._ids(piece, line, document)
                if not len(ids):
                    empty += 1
                    continue
                parts += (ids.astype(self._dtype, copy=False), end)
                lengths.append(len(ids) + len(end))
                text_bytes += len(document)
        tokens = np.concatenate(parts) if parts else np.empty(0, self._dtype)
        return Encoded(tokens, np.array(lengths, dtype=np.int32), empty, text_bytes)

    def _ids(self, piece: Piece, line: int, document: bytes) -> np.ndarray:
        try:
            return self._tokenizer.encode(document)
        except UnicodeDecodeError as error:
            line += document.count(b"\n", 0, error.start)
            raise DataError(f"{piece.path}:{line}: not UTF-8 (byte 0x{document[error.start]:02x})") from None
        except DataError as error:
            raise DataError(f"{piece.path}:{line}: {error}") from None

    def _documents(self, piece: Piece) -> Iterator[tuple[int, bytes]]:
        """Line and UTF-8 text of each document of a piece; blank lines are none."""
        if piece.kind == "document":
            yield piece.line, piece.data
            return
        for line, text in enumerate(piece.data.split(b"\n"), start=piece.line):
            if text.strip():
                yield line, text.removesuffix(b"\r") if piece.kind == "lines" else self._field(piece, line, text)

    def _field(self, piece: Piece, line: int, text: bytes) -> bytes:
        place = f"{piece.path}:{line}"
        try:
            row = json.loads(text.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise DataError(
                f"{place}: not UTF-8 (byte 0x{text[error.start]:02x} at column {error.start + 1})"
            ) from None
        except json.JSONDecodeError as error:
            raise DataError(f"{place}: not JSON: {error.msg} at column {error.colno}") from None
        except (ValueError, RecursionError) as error:  # numbers of thousands of digits, brackets thousands deep
            raise DataError(f"{place}: not JSON that can be read: {error}") from None
        if not isinstance(row, dict):
            raise DataError(f"{place}: {_JSON_TYPES.get(type(row), 'a string')}, not an object")
        if self._json_key not in row:
            near = get_close_matches(self._json_key, row, n=1)
            keys = ", ".join(map(repr, list(row)[:8])) or "nothing"
            raise DataError(
                f"{place}: no key {self._json_key!r}; it has {keys}" + (f"; did you mean {near[0]!r}?" if near else "")
            )
        value = row[self._json_key]
        if not isinstance(value, str):
            raise DataError(f"{place}: {self._json_key!r} is {_JSON_TYPES[type(value)]}, not a string")
        try:
            return value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise DataError(
                f"{place}: {self._json_key!r} holds half a character (\\u{ord(value[error.start]):04x})"
            ) from None
