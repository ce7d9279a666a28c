"""Packed rows on disk: the token ids of every sequence once, and which sequences share a row.

A folder of flat arrays, mapped when read. Ids stand in the order of the data; a row names its sequences, so packing
moves no token. `artifact.json` says the sizes of all files and everything that went into them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from trainwright.datasets.packing.algorithms import Packing
from trainwright.datasets.packing.tokenizing import Encoded

if TYPE_CHECKING:
    import numpy as np

FORMAT = 1
"""Part of the fingerprint: another layout is another artifact."""
DESCRIPTION = "artifact.json"
NAMED = 3
"""Samples left out of which the description says why; all are counted."""


@dataclass(frozen=True)
class Artifact:
    """Sequence i has the ids `tokens[starts[i]:starts[i + 1]]`; it trains on all but the last, to give all but the
    first. Row r holds the sequences `order[offsets[r]:offsets[r + 1]]`."""

    tokens: np.ndarray
    """uint16 or int32, shape [ids]."""
    learn: np.ndarray
    """Whether an id is learnt: bool, shape [ids]; false for the first of a sequence, which nothing comes before."""
    starts: np.ndarray
    """int64, shape [sequences + 1]."""
    numbers: np.ndarray
    """The sample of the dataset that each sequence is: int64, shape [sequences]; those left out are missing."""
    order: np.ndarray
    """int64, shape [sequences]."""
    offsets: np.ndarray
    """int64, shape [rows + 1]."""
    description: dict[str, Any]

    def sequences(self, row: int) -> np.ndarray:
        return self.order[self.offsets[row] : self.offsets[row + 1]]

    def lengths(self, sequences: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Tokens that each of the sequences puts into its row: int64, shape [sequences]."""
        return self.starts[1:][sequences] - self.starts[:-1][sequences] - 1


def open_artifact(folder: Path) -> Artifact | None:
    """The artifact in a folder, or None where it is absent, of another format or not whole."""
    import numpy as np

    try:
        description = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        arrays = {}
        for name, (dtype, count) in description["arrays"].items():
            path = folder / f"{name}.bin"
            if path.stat().st_size != np.dtype(dtype).itemsize * count:
                return None
            arrays[name] = np.memmap(path, dtype=dtype, mode="r", shape=(count,))
        return Artifact(**arrays, description=description)
    except (OSError, ValueError, KeyError, TypeError):
        return None


class ArtifactWriter:
    """Fills an empty folder: sequences one batch after another, then the rows."""

    def __init__(self, folder: Path, vocab_size: int) -> None:
        self._folder = folder
        self._dtype = "uint16" if vocab_size <= 2**16 else "int32"
        self._lengths: list[np.ndarray] = []
        self._numbers: list[np.ndarray] = []
        self._counts = {"supervised_tokens": 0, "truncated_sequences": 0, "truncated_tokens": 0}
        self._left_out: list[str] = []
        self.sequences = 0

    def __enter__(self) -> Self:
        self._tokens, self._learn = ((self._folder / name).open("wb") for name in ("tokens.bin", "learn.bin"))
        return self

    def add(self, encoded: Encoded) -> None:
        """Append sequences."""
        self._tokens.write(encoded.tokens.astype(self._dtype, copy=False).tobytes())
        self._learn.write(encoded.learn.tobytes())
        self._lengths.append(encoded.lengths)
        self._numbers.append(encoded.numbers)
        self.sequences += len(encoded.lengths)
        self._left_out += encoded.left_out[: NAMED - len(self._left_out)]
        self._counts["supervised_tokens"] += int(encoded.learn.sum())
        self._counts["truncated_sequences"] += int((encoded.truncated > 0).sum())
        self._counts["truncated_tokens"] += int(encoded.truncated.sum())

    def lengths(self) -> np.ndarray:
        """Ids of each sequence so far: int64, shape [sequences]."""
        import numpy as np

        return np.concatenate([np.empty(0, dtype=np.int64), *self._lengths])

    def finish(self, packing: Packing, description: Mapping[str, object]) -> None:
        """Write the rows, and last what makes the artifact whole."""
        import numpy as np

        starts = np.concatenate(([0], np.cumsum(self.lengths())))
        arrays = {
            "starts": starts,
            "numbers": np.concatenate(self._numbers),
            "order": packing.order,
            "offsets": packing.offsets,
        }
        for name, array in arrays.items():
            array.astype(np.int64).tofile(self._folder / f"{name}.bin")
        ids = int(starts[-1])
        described = {"tokens": (self._dtype, ids), "learn": ("bool", ids)}
        described |= {name: ("int64", len(array)) for name, array in arrays.items()}
        self._close()
        text = json.dumps({**description, **self._counts, "left_out": self._left_out, "arrays": described}, indent=1)
        (self._folder / DESCRIPTION).write_text(text + "\n", encoding="utf-8")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        self._tokens.close()
        self._learn.close()
