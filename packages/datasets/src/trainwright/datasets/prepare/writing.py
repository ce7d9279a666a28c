"""The `.bin`/`.idx` pair, written whole or not at all (the format is described in `trainwright.datasets.indexed`)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from trainwright.datasets import provenance
from trainwright.datasets.errors import DataError
from trainwright.datasets.indexed import CHUNK, DTYPES, HEADER, MAGIC, VERSION, sha256_of

if TYPE_CHECKING:
    import numpy as np

SUFFIXES = (".idx", provenance.SUFFIX, ".bin")
"""What a prepared corpus consists of. In the order of removal: without its index a pair is not taken for one."""


def dtype_for(vocab_size: int) -> str:
    """The smallest type of the format that holds every id of a vocabulary."""
    return "uint8" if vocab_size <= 2**8 else "uint16" if vocab_size <= 2**16 else "int32"


class PairWriter:
    """Writes under hidden names; `finish` gives the files theirs. Left without it, nothing stays."""

    def __init__(self, prefix: Path, dtype: str) -> None:
        self._prefix, self._dtype = prefix, dtype
        self._scratch = {suffix: prefix.with_name(f".{prefix.name}{suffix}.{os.getpid()}") for suffix in SUFFIXES}
        self._new_folders = [folder for folder in prefix.parents if not folder.exists()]
        self.documents = self.tokens = 0

    def __enter__(self) -> Self:
        try:
            self._prefix.parent.mkdir(parents=True, exist_ok=True)
            self._bin = self._scratch[".bin"].open("wb")
            self._idx = self._scratch[".idx"].open("w+b")
            self._idx.write(bytes(HEADER.size))
        except OSError as error:
            self._discard()
            raise DataError(f"{self._prefix.parent}: cannot write there: {error.strerror}") from error
        return self

    def add(self, tokens: np.ndarray, lengths: np.ndarray) -> None:
        """Append documents: their ids one after the other, and the int32 number of ids of each."""
        self._bin.write(tokens.tobytes())
        self._idx.write(lengths.tobytes())
        self.documents += len(lengths)
        self.tokens += len(tokens)

    def finish(self, description: Mapping[str, object]) -> None:
        """Complete the index and put everything in place, the index last; `description` goes into `.prepare.json`."""
        self._write_index()
        for stream in (self._idx, self._bin):
            stream.flush()
            os.fsync(stream.fileno())
            stream.close()
        described = dict(description) | {"idx_sha256": sha256_of(self._scratch[".idx"])}
        self._scratch[provenance.SUFFIX].write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
        for suffix in SUFFIXES:
            Path(f"{self._prefix}{suffix}").unlink(missing_ok=True)
        for suffix in reversed(SUFFIXES):
            os.rename(self._scratch[suffix], f"{self._prefix}{suffix}")
        self._new_folders = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for stream in (self._idx, self._bin):
            with suppress(OSError):  # what could not be written is thrown away just below
                stream.close()
        self._discard()
        if isinstance(error, OSError):
            raise DataError(f"{self._prefix}: cannot write: {error.strerror or error}") from error

    def _write_index(self) -> None:
        """Behind the lengths, which are there already: where each sequence begins, then the document index."""
        import numpy as np

        self._idx.flush()
        lengths = np.memmap(self._idx.name, np.int32, "r", offset=HEADER.size, shape=(self.documents,))
        itemsize, begin = np.dtype(self._dtype).itemsize, 0
        for at in range(0, self.documents, CHUNK):
            ends = begin + np.cumsum(lengths[at : at + CHUNK], dtype=np.int64) * itemsize
            self._idx.write(np.concatenate(([begin], ends[:-1])).astype(np.int64).tobytes())
            begin = int(ends[-1])
        for at in range(0, self.documents + 1, CHUNK):
            self._idx.write(np.arange(at, min(at + CHUNK, self.documents + 1), dtype=np.int64).tobytes())
        code = next(code for code, name in DTYPES.items() if name == self._dtype)
        self._idx.seek(0)
        self._idx.write(HEADER.pack(MAGIC, VERSION, code, self.documents, self.documents + 1))

    def _discard(self) -> None:
        for path in self._scratch.values():
            with suppress(OSError):  # not there
                path.unlink()
        for folder in self._new_folders:
            with suppress(OSError):  # not there, or someone else's by now
                folder.rmdir()
