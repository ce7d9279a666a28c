"""The weights of a whole model as some checkpoint holds them, read a rectangle at a time.

Names are those of a native checkpoint of `HybridModel`, whatever the checkpoint calls them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from trainwright.recipes.config.model import ModelConfig

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""Offsets and sizes of a rectangle."""


@dataclass(frozen=True)
class Weight:
    """One parameter of the whole model."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    boxes: tuple[Box, ...]
    """Rectangles that cover it and in which it is best read, none of them larger than a tensor of the source."""


class Weights(Protocol):
    """A checkpoint's weights."""

    path: Path
    kind: str
    """What it is, for a person."""
    model: ModelConfig | None
    """What it says of its model; null where it says nothing that is understood."""
    remarks: list[str]
    """What a person should know about how it was read."""

    @property
    def held(self) -> Mapping[str, Weight]:
        """Every parameter, by name."""
        ...

    def block(self, name: str, offsets: Sequence[int], sizes: Sequence[int]) -> Tensor:
        """A rectangle of a parameter, on the CPU; maybe in a mapped file, so not to be written to."""
        ...
