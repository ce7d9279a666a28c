"""Writing safetensors files of which only one tensor is in memory at a time.

The format: the length of the header (8 bytes, little-endian), the header (JSON: name to type, shape and place), and
the tensors' bytes one after another. See the format's own description in the safetensors project.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from trainwright.runner.huggingface.folder import INDEX, LARGEST_SHARD, SINGLE
from trainwright.runner.huggingface.quantised import PLAIN

if TYPE_CHECKING:
    from torch import Tensor

TYPE_NAMES = {getattr(torch, kind): name for name, kind in PLAIN.items()}


@dataclass(frozen=True)
class Planned:
    """A tensor that is to be written."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def bytes(self) -> int:
        """Of its data."""
        return math.prod(self.shape) * self.dtype.itemsize


def write_safetensors(
    folder: Path,
    planned: Mapping[str, Planned],
    tensor: Callable[[str], Tensor],
    *,
    largest: int = LARGEST_SHARD,
) -> list[Path]:
    """Write all tensors in their order, into one file or into several with an index; `tensor(name)` is asked once each.

    No file has more than `largest` bytes of tensors, unless one tensor alone does.
    """
    shards = _shards(planned, largest)
    names = [f"model-{number:05d}-of-{len(shards):05d}.safetensors" for number in range(1, len(shards) + 1)]
    if len(shards) == 1:
        names = [SINGLE]
    for name, shard in zip(names, shards, strict=True):
        write_file(folder / name, {tensor_name: planned[tensor_name] for tensor_name in shard}, tensor)
    if len(shards) > 1:
        places = {tensor_name: name for name, shard in zip(names, shards, strict=True) for tensor_name in shard}
        size = sum(one.bytes for one in planned.values())
        (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": size}, "weight_map": places}, indent=2))
    return [folder / name for name in names]


def _shards(planned: Mapping[str, Planned], largest: int) -> list[list[str]]:
    shards: list[list[str]] = [[]]
    filled = 0
    for name, one in planned.items():
        if shards[-1] and filled + one.bytes > largest:
            shards.append([])
            filled = 0
        shards[-1].append(name)
        filled += one.bytes
    return shards


def write_file(
    path: Path,
    planned: Mapping[str, Planned],
    tensor: Callable[[str], Tensor],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write one file of these tensors; `metadata` are further words of its header."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt", **(metadata or {})}}
    end = 0
    for name, one in planned.items():
        header[name] = {
            "dtype": TYPE_NAMES[one.dtype],
            "shape": list(one.shape),
            "data_offsets": [end, end + one.bytes],
        }
        end += one.bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that tensors begin at a multiple of their own width
    with open(path, "wb") as stream:
        stream.write(len(text).to_bytes(8, "little"))
        stream.write(text)
        for name, one in planned.items():
            data = tensor(name).to(one.dtype).contiguous()
            if tuple(data.shape) != one.shape:
                raise ValueError(f"{name} has the shape {list(data.shape)} and not {list(one.shape)}")
            stream.write(data.reshape(-1).view(torch.uint8).numpy())
            del data  # before the next one is made
        stream.flush()
        os.fsync(stream.fileno())
