"""Sample indices on disk: built once for each file system, whole or not there, found by what they were made from."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.datasets.errors import DataError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class IndexCache:
    """A folder with one folder for each index. Several processes may use it at once, with no lock: an index is written
    under a name of its own and then renamed, and two processes that build the same index write the same bytes."""

    folder: Path

    def arrays(
        self,
        key: Mapping[str, object],
        names: Sequence[str],
        build: Callable[[], Sequence[np.ndarray]],
    ) -> tuple[np.ndarray, ...]:
        """The arrays that `build` returns, mapped from disk; built only where they are not on disk yet.

        `key` holds, as JSON values, everything that the arrays depend on.

        Raises:
            DataError: the folder cannot be written.
        """
        description = json.dumps(key, indent=1, sort_keys=True)
        entry = self.folder / hashlib.sha256(description.encode()).hexdigest()[:32]
        found = _load(entry, names)
        if found is not None:
            return found
        built = build()
        try:
            self._publish(entry, description, dict(zip(names, built, strict=True)))
        except OSError as error:
            raise DataError(
                f"the index cache cannot be written to {self.folder}: {error.strerror}; set dataset.path_to_cache"
            ) from error
        return _load(entry, names) or tuple(built)

    def _publish(self, entry: Path, description: str, arrays: Mapping[str, np.ndarray]) -> None:
        import numpy as np

        self.folder.mkdir(parents=True, exist_ok=True)
        scratch = self.folder / f".{entry.name}-{uuid.uuid4().hex}"
        scratch.mkdir()
        try:
            for name, array in arrays.items():
                np.save(scratch / f"{name}.npy", array, allow_pickle=False)
            (scratch / "key.json").write_text(description)
            self._move(scratch, entry, tuple(arrays))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _move(self, scratch: Path, entry: Path, names: Sequence[str]) -> None:
        try:
            os.rename(scratch, entry)
            return
        except OSError:
            if _load(entry, names) is not None:
                return  # another process was first, with the same bytes
            if not entry.exists():
                raise
        # What stands there cannot be read: put aside and replaced.
        os.rename(entry, scratch / "damaged")
        shutil.rmtree(scratch / "damaged")
        os.rename(scratch, entry)


def _load(entry: Path, names: Sequence[str]) -> tuple[np.ndarray, ...] | None:
    """The arrays of an entry, or None where it is absent or damaged."""
    import numpy as np

    try:
        return tuple(np.load(entry / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names)
    except (OSError, ValueError, EOFError):
        return None
