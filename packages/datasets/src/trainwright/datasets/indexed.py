"""Megatron Core's indexed format, read and checked with numpy alone.

`PREFIX.bin` holds the token ids of all sequences, one after the other. `PREFIX.idx` holds, little-endian:

    9 bytes  magic "MMIDIDX\\0\\0"      8 bytes  version, 1      1 byte  dtype code
    8 bytes  sequences S                8 bytes  entries D of the document index
    int32[S] tokens of each sequence    int64[S] where each begins in .bin, in bytes
    int64[D] document index: first sequence of each document, then S

(megatron.core.datasets.indexed_dataset, version 0.19.2.)
"""

from __future__ import annotations

import difflib
import hashlib
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.datasets.errors import DataError

if TYPE_CHECKING:
    import numpy as np

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
DTYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float64", 7: "float32", 8: "uint16"}
"""dtype code -> numpy name. Tokens are never of the two float types."""

HEADER = struct.Struct("<9sQBQQ")
CHUNK = 1 << 20
"""Entries looked at together: memory stays flat however long the corpus is."""
SAMPLED = 16
"""Stretches of a large `.bin` that are looked at where not all of it is."""
SMALL = SAMPLED * CHUNK
"""Tokens of a pair of which all ids are always looked at."""


@dataclass(frozen=True)
class IndexedPair:
    """A `.bin`/`.idx` pair that agrees with itself."""

    prefix: str
    dtype: str
    sequences: int
    documents: int
    tokens: int
    sha256: str
    """Of the whole `.idx`: the lengths of all sequences, and so everything that a sample index depends on."""

    def lengths(self) -> np.ndarray:
        """Tokens of each sequence: int32, shape [sequences], mapped from the file."""
        import numpy as np

        return np.memmap(f"{self.prefix}.idx", np.int32, "r", offset=HEADER.size, shape=(self.sequences,))

    def token_ids(self) -> np.ndarray:
        """All token ids: shape [tokens], mapped from the file."""
        import numpy as np

        return np.memmap(f"{self.prefix}.bin", self.dtype, "r", shape=(self.tokens,))

    def document_index(self) -> np.ndarray:
        """First sequence of each document, then the number of sequences: int64, shape [documents + 1], mapped."""
        import numpy as np

        offset = HEADER.size + 12 * self.sequences
        return np.memmap(f"{self.prefix}.idx", np.int64, "r", offset=offset, shape=(self.documents + 1,))


def open_pair(prefix: str) -> IndexedPair:
    """Check a pair as a whole: sizes, header, lengths, pointers, document index. Token ids are not read.

    Raises:
        DataError: with the file, what it holds and what it should hold.
    """
    idx, data = f"{prefix}.idx", f"{prefix}.bin"
    _must_exist(prefix)
    size = os.path.getsize(idx)
    with _opened(idx) as stream:
        header = stream.read(HEADER.size)
    if header[: len(MAGIC)] != MAGIC:
        raise DataError(f"{idx} is not an index: it begins with {header[:9]!r}, not {MAGIC!r}")
    if len(header) < HEADER.size:
        raise DataError(f"{idx} is cut off: {size} bytes, the header alone takes {HEADER.size}")
    _, version, code, sequences, entries = HEADER.unpack(header)
    if version != VERSION:
        raise DataError(f"{idx} has version {version}, not {VERSION}")
    dtype = DTYPES.get(code)
    if dtype is None or dtype.startswith("float"):
        allowed = ", ".join(f"{key} ({name})" for key, name in DTYPES.items() if not name.startswith("float"))
        raise DataError(f"{idx} has dtype code {code} ({dtype or 'unknown'}); token ids are {allowed}")
    expected = HEADER.size + 12 * sequences + 8 * entries
    if size != expected:
        raise DataError(
            f"{idx} has {size} bytes, but its header ({sequences} sequences, {entries} document entries) "
            f"says {expected}"
        )
    if sequences == 0:
        raise DataError(f"{idx} holds no sequence")
    with _opened(data):
        pass  # it will be mapped, which says less when it may not be read
    tokens = _check_index(idx, sequences, entries, dtype)
    _check_bin_size(data, idx, tokens, dtype)
    return IndexedPair(prefix, dtype, sequences, entries - 1, tokens, sha256_of(idx))


def token_range(pair: IndexedPair, *, full: bool) -> tuple[int, int]:
    """Smallest and largest token id of a pair.

    Of all of it with `full`, or where it is small; else of 16 stretches of 2^20 ids: the first, the last and 14
    evenly between.
    """
    ids = pair.token_ids()
    begins: Sequence[int] = range(0, pair.tokens, CHUNK)
    if not full and pair.tokens > SMALL:
        begins = [(pair.tokens - CHUNK) * step // (SAMPLED - 1) for step in range(SAMPLED)]
    parts = (ids[begin : begin + CHUNK] for begin in begins)
    lows, highs = zip(*((int(part.min()), int(part.max())) for part in parts), strict=True)
    return min(lows), max(highs)


def check_token_ids(pair: IndexedPair, vocab_size: int, *, full: bool = False) -> None:
    """Refuse a pair with an id outside [0, vocab_size); without `full`, of a large pair some parts are looked at."""
    low, high = token_range(pair, full=full)
    if low < 0 or high >= vocab_size:
        bad = low if low < 0 else high
        raise DataError(
            f"{pair.prefix}.bin holds token id {bad}, the vocabulary is 0 to {vocab_size - 1}; "
            "the data was prepared with another tokenizer"
        )


def _must_exist(prefix: str) -> None:
    missing = [suffix for suffix in (".idx", ".bin") if not os.path.isfile(prefix + suffix)]
    if not missing:
        return
    if prefix.endswith((".bin", ".idx")) and os.path.isfile(prefix):
        raise DataError(f"{prefix!r} is a file; give the prefix {prefix[:-4]!r}")
    if len(missing) == 1:
        other = ".bin" if missing == [".idx"] else ".idx"
        raise DataError(f"{prefix}{missing[0]} does not exist, only {prefix}{other}; both are needed")
    folder = Path(prefix).parent
    if not folder.is_dir():
        raise DataError(f"{prefix}.idx and .bin do not exist: there is no folder {folder}")
    present = sorted(path.stem for path in folder.glob("*.idx"))
    near = difflib.get_close_matches(Path(prefix).name, present, n=1, cutoff=0.4)
    hint = f"; did you mean {folder / near[0]}?" if near else ""
    raise DataError(f"{prefix}.idx and .bin do not exist{hint}")


def _opened(path: str | Path) -> BufferedReader:
    try:
        return open(path, "rb")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from error


def _check_index(idx: str, sequences: int, entries: int, dtype: str) -> int:
    """Check lengths, pointers and document index; returns the number of tokens."""
    import numpy as np

    at = HEADER.size
    lengths = np.memmap(idx, np.int32, "r", offset=at, shape=(sequences,))
    pointers = np.memmap(idx, np.int64, "r", offset=at + 4 * sequences, shape=(sequences,))
    tokens = 0
    for rows in _chunks(sequences):
        part = lengths[rows].astype(np.int64)
        if (part <= 0).any():
            first = rows.start + int(np.argmax(part <= 0))
            raise DataError(f"{idx}: sequence {first} has {lengths[first]} tokens; a sequence has at least 1")
        ends = tokens + np.cumsum(part)
        begins = (ends - part) * np.dtype(dtype).itemsize
        if (pointers[rows] != begins).any():
            first = int(np.argmax(pointers[rows] != begins))
            raise DataError(
                f"{idx}: sequence {rows.start + first} begins at byte {pointers[rows][first]}, "
                f"but the lengths before it say {begins[first]}"
            )
        tokens = int(ends[-1])
    _check_document_index(idx, sequences, entries)
    return tokens


def _check_document_index(idx: str, sequences: int, entries: int) -> None:
    import numpy as np

    if entries < 2:
        raise DataError(f"{idx} has no document index ({entries} entries for {sequences} sequences)")
    index = np.memmap(idx, np.int64, "r", offset=HEADER.size + 12 * sequences, shape=(entries,))
    if index[0] != 0 or index[-1] != sequences:
        raise DataError(
            f"{idx}: the document index runs from {index[0]} to {index[-1]}, the sequences from 0 to {sequences}"
        )
    for rows in _chunks(entries - 1):
        steps = np.diff(index[rows.start : rows.stop + 1])
        if (steps <= 0).any():
            raise DataError(f"{idx}: document {rows.start + int(np.argmax(steps <= 0))} holds no sequence")


def _check_bin_size(data: str, idx: str, tokens: int, dtype: str) -> None:
    import numpy as np

    expected, actual = tokens * np.dtype(dtype).itemsize, os.path.getsize(data)
    if actual != expected:
        what = "is cut off" if actual < expected else "is too long"
        raise DataError(
            f"{data} {what}, or belongs to another index: it has {actual} bytes, "
            f"{idx} says {expected} ({tokens} tokens of {dtype})"
        )


def _chunks(count: int) -> Iterator[slice]:
    return (slice(at, min(at + CHUNK, count)) for at in range(0, count, CHUNK))


def sha256_of(path: str | Path) -> str:
    """SHA-256 of a file, as hexadecimal digits."""
    with _opened(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
