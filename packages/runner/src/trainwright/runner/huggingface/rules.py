"""Which tensors of theirs make which tensors of ours, both of the whole model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainwright.runner.errors import RunRefused

if TYPE_CHECKING:
    from torch import Tensor

Views = Callable[[Sequence["Tensor"]], Sequence["Tensor"]]
"""Views of tensors that, one after another in the first dimension, are another tensor; every element in one of them."""


@dataclass(frozen=True)
class Slot:
    """A tensor of a checkpoint, or one of several that it holds stacked in a first dimension."""

    name: str
    shape: tuple[int, ...]
    """Of what is meant here: without that first dimension."""
    index: int | None = None
    count: int | None = None
    """Which one of how many; null means the tensor itself."""

    @property
    def whole_shape(self) -> tuple[int, ...]:
        """Shape of the tensor as the checkpoint holds it."""
        return self.shape if self.count is None else (self.count, *self.shape)


def as_they_are(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """One whole tensor after the other."""
    return tensors


@dataclass(frozen=True)
class Rule:
    """How tensors of theirs become one of ours.

    Both directions follow from `views`: joining reads through the views, splitting writes through them. So one undoes
    the other bit for bit, whatever the views are.
    """

    ours: Slot
    theirs: tuple[Slot, ...]
    views: Views = as_they_are

    def join(self, tensors: Sequence[Tensor]) -> Tensor:
        """Ours, whole; may share memory with `tensors`."""
        return self.block(tensors, (0,) * len(self.ours.shape), self.ours.shape)

    def split(self, whole: Tensor) -> list[Tensor]:
        """Theirs, in their order; may share memory with `whole`."""
        if self.views is as_they_are:
            return list(whole.split([slot.shape[0] for slot in self.theirs]))
        parts = [whole.new_empty(slot.shape) for slot in self.theirs]
        views = self.views(parts)
        for view, rows in zip(views, whole.split([len(view) for view in views]), strict=True):
            view.copy_(rows)
        return parts

    def block(self, tensors: Sequence[Tensor], offsets: Sequence[int], sizes: Sequence[int]) -> Tensor:
        """A rectangle of ours. Only what lies in it is read, where `tensors` are files in memory."""
        first, last = offsets[0], offsets[0] + sizes[0]
        pieces, start = [], 0
        for view in self.views(tensors):
            low, high = max(first, start), min(last, start + len(view))
            if low < high:
                pieces.append(_narrow(view.narrow(0, low - start, high - low), offsets, sizes))
            start += len(view)
        if len(pieces) == 1:
            return pieces[0]
        import torch

        return torch.cat(pieces)


def _narrow(rows: Tensor, offsets: Sequence[int], sizes: Sequence[int]) -> Tensor:
    for dimension in range(1, rows.dim()):
        rows = rows.narrow(dimension, offsets[dimension], sizes[dimension])
    return rows


def require_exact_cover(
    wanted: Iterable[Slot], held: Mapping[str, tuple[int, ...]], *, where: object, what: str = "the model"
) -> None:
    """Find out whether the slots take every tensor of `held` (name to shape) exactly once.

    Raises:
        RunRefused: a tensor is missing, left over, or of another shape.
        ValueError: two rules take the same; a fault of this program.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    indices: dict[str, list[int | None]] = {}
    for slot in wanted:
        if shapes.setdefault(slot.name, slot.whole_shape) != slot.whole_shape:
            raise ValueError(f"{slot.name} has two shapes")
        indices.setdefault(slot.name, []).append(slot.index)
    for name, taken in indices.items():
        if taken != [None] and taken != list(range(shapes[name][0])):
            raise ValueError(f"{name} is not taken exactly once: {taken}")
    missing, extra = sorted(shapes.keys() - held.keys()), sorted(held.keys() - shapes.keys())
    other = [
        f"{name} {list(held[name])} and not {list(shape)}"
        for name, shape in sorted(shapes.items())
        if name in held and tuple(held[name]) != shape
    ]
    for names, says in ((missing, "lacks"), (extra, f"holds what {what} has no place for:"), (other, "holds")):
        if names:
            raise RunRefused(f"{where} {says} {some(names)}")


def some(names: Sequence[str], most: int = 3) -> str:
    """The first few names, and how many there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more ({len(names)} in all)" if rest > 0 else "")
