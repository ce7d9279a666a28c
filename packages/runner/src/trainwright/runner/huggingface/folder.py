"""A Hugging Face directory: its configuration and its safetensors files."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.runner.errors import RunRefused
from trainwright.runner.failures import first_line

if TYPE_CHECKING:
    from torch import Tensor

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
LARGEST_SHARD = 5 * 1000**3
"""Bytes of a file that is written; transformers' own limit."""


def is_huggingface(path: Path) -> bool:
    """Whether `path` is a folder as `save_pretrained` leaves it."""
    return (path / CONFIG).is_file() and not (path / ".metadata").exists()


class HuggingFaceFolder:
    """What lies in one. Opening it reads headers alone; `tensor` maps a file and reads what is touched."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            RunRefused: no such folder, or one whose configuration or files are missing, damaged or contradict.
        """
        self.path = path
        self.config = read_json(path / CONFIG)
        self.tensors: dict[str, tuple[Path, str, tuple[int, ...]]] = {}
        """Name to file, safetensors' name of the type, and shape."""
        self._opened: dict[Path, Any] = {}
        for file in self._files():
            for name, dtype, shape in header_of(file):
                if name in self.tensors:
                    raise RunRefused(f"{path}: {name} is in {self.tensors[name][0].name} and in {file.name}")
                self.tensors[name] = file, dtype, shape
        self._agree_with_index()

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of every tensor."""
        return {name: shape for name, (_, _, shape) in self.tensors.items()}

    @property
    def bytes(self) -> int:
        """Of all files with weights."""
        return sum(file.stat().st_size for file in {file for file, _, _ in self.tensors.values()})

    @cached_property
    def _index(self) -> dict[str, str] | None:
        path = self.path / INDEX
        if not path.is_file():
            return None
        found = read_json(path).get("weight_map")
        if not isinstance(found, dict) or not found:
            raise RunRefused(f"{path} has no weight_map")
        return found

    def _files(self) -> list[Path]:
        if self._index is not None:
            files = [self.path / name for name in sorted(set(self._index.values()))]
            missing = [file.name for file in files if not file.is_file()]
            if missing:
                raise RunRefused(f"{self.path}: {INDEX} names files that are not there: {', '.join(missing[:3])}")
            return files
        files = sorted(self.path.glob("*.safetensors"))
        if not files:
            older = sorted(file.name for file in self.path.glob("*.bin"))
            hint = f"; {older[0]} is of another format, which transformers' save_pretrained converts" if older else ""
            raise RunRefused(f"{self.path} holds no safetensors files{hint}")
        if len(files) > 1 and (self.path / SINGLE) not in files:
            raise RunRefused(f"{self.path} holds {len(files)} safetensors files and no {INDEX}")
        return [self.path / SINGLE] if (self.path / SINGLE) in files else files

    def _agree_with_index(self) -> None:
        if self._index is None:
            return
        wrong = sorted(
            name
            for name in self._index.keys() | self.tensors.keys()
            if name not in self.tensors or self._index.get(name) != self.tensors[name][0].name
        )
        if wrong:
            raise RunRefused(f"{self.path}: {INDEX} and the files disagree about {', '.join(wrong[:3])} ({len(wrong)})")

    def tensor(self, name: str) -> Tensor:
        """The tensor, in the mapped file: nothing is read before it is used."""
        file = self.tensors[name][0]
        if file not in self._opened:
            self._opened[file] = open_file(file, "pt")
        found: Tensor = self._opened[file].get_tensor(name)
        return found


def read_json(path: Path) -> dict[str, Any]:
    """An object from a JSON file.

    Raises:
        RunRefused: it cannot be read or is none.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunRefused(f"{path} cannot be read: {first_line(error)}") from error
    if not isinstance(found, dict):
        raise RunRefused(f"{path} holds no JSON object")
    return found


def open_file(file: Path, framework: str) -> Any:
    """safetensors' own handle of a file.

    Raises:
        RunRefused: the file is damaged, or not there.
    """
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(str(file), framework=framework)
    except (SafetensorError, OSError) as error:
        raise RunRefused(f"{file} is damaged or cut short: {first_line(error)}") from error


def header_of(file: Path) -> list[tuple[str, str, tuple[int, ...]]]:
    """Name, type and shape of each tensor. Raises RunRefused for a file whose length its header contradicts."""
    opened = open_file(file, "np")
    slices = ((name, opened.get_slice(name)) for name in opened.keys())  # noqa: SIM118 - it is no mapping
    return [(name, part.get_dtype(), tuple(part.get_shape())) for name, part in slices]
