"""Weights with an adapter merged into them, a rectangle at a time.

In place of W a merged layer has, in float32 (float64 where the weights have it) and then rounded to their type,

    LoRA  W + alpha / dim * B A
    DoRA  m / |W + alpha / dim * B A| * (W + alpha / dim * B A)      rows of a length |.| become rows of length m
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from trainwright.runner.checkpoints.adapter import by_path, weight_of
from trainwright.runner.checkpoints.adapter_rows import Factors, part_rows
from trainwright.runner.checkpoints.weights import Weight
from trainwright.runner.errors import RunFailed, RunRefused
from trainwright.runner.huggingface.rules import some

if TYPE_CHECKING:
    from torch import Tensor

    from trainwright.runner.checkpoints.adapter import Adapter
    from trainwright.runner.checkpoints.weights import Weights


SAME_LENGTH = 1e-5
"""By how much a DoRA row's length may differ from its magnitude, relative and beside rounding, and count as not
trained."""


class MergedWeights:
    """A `Weights`: those of `base` with `adapter` merged into them, in their type or in `dtype`."""

    def __init__(self, base: Weights, adapter: Adapter, dtype: torch.dtype | None = None) -> None:
        """
        Raises:
            RunRefused: the adapter adapts what the base does not have.
        """
        self.base, self.adapter, self.path, self.model = base, adapter, base.path, base.model
        self.kind, self.remarks, self._dtype = f"{base.kind}, with {adapter.path} merged", base.remarks, dtype
        self._linears = {weight_of(linear): linear for linear in by_path(adapter.model).values()}
        self._adapted = {name: one.path for name, one in self._linears.items() if one.path in adapter.layers}
        self._read: tuple[str, dict[str, Factors]] | None = None
        self._acts = False
        self._changed: dict[str, bool] = {}
        self._require_weights()

    def _require_weights(self) -> None:
        for name in self._adapted:
            linear, held = self._linears[name], self.base.held.get(name)
            stack = () if linear.experts is None else (linear.experts,)
            wanted = (*stack, linear.rows, linear.columns)
            if held is None:
                raise RunRefused(f"{self.base.path} has no {name}, which {self.adapter.path} adapts")
            if held.shape != wanted:
                raise RunRefused(
                    f"{self.base.path}: {name} is {list(held.shape)}, and {self.adapter.path} is for {list(wanted)}"
                )

    @cached_property
    def held(self) -> dict[str, Weight]:
        return {
            name: Weight(weight.shape, self._type(name, weight.dtype), weight.boxes)
            for name, weight in self.base.held.items()
        }

    def _type(self, name: str, own: torch.dtype) -> torch.dtype:
        from trainwright.runner.huggingface.export import ALWAYS

        return own if self._dtype is None or name.endswith(ALWAYS) else self._dtype

    def block(self, name: str, offsets: Sequence[int], sizes: Sequence[int]) -> Tensor:
        if name not in self._adapted:
            return self.base.block(name, offsets, sizes).to(self.held[name].dtype)
        # A row's length is that of the whole row.
        columns = self.base.held[name].shape[-1]
        before = self.base.block(name, (*offsets[:-1], 0), (*sizes[:-1], columns))
        merged = before.to(torch.promote_types(before.dtype, torch.float32), copy=True)
        *stack, (first, last) = [(start, start + size) for start, size in zip(offsets[:-1], sizes[:-1], strict=True)]
        for part, factors in self._factors(name).items():
            rows = part_rows(self._linears[name], part, self.adapter.model)
            inside = (rows >= first) & (rows < last)
            self._merge(merged, rows[inside] - first, _narrowed(factors, [slice(*one) for one in stack], inside))
        dtype = self.held[name].dtype
        after = merged.to(dtype)
        self._changed[name] = self._changed.get(name, False) or not torch.equal(before.to(dtype), after)
        return after.narrow(-1, offsets[-1], sizes[-1])

    def _merge(self, weight: Tensor, rows: Tensor, factors: Factors) -> None:
        """Put the merged rows in their place. `weight` is [..., rows, columns] and holds what was there."""
        peft = self.adapter.peft
        added = peft.alpha / peft.dim * (factors.b.to(weight.dtype) @ factors.a.to(weight.dtype))
        merged = weight[..., rows, :] + added
        self._acts = self._acts or bool(added.any())
        if factors.magnitude is not None:
            lengths = torch.linalg.vector_norm(merged, dim=-1).clamp_(min=torch.finfo(torch.float32).tiny)
            factor = factors.magnitude.to(weight.dtype) / lengths
            rounding = SAME_LENGTH + torch.finfo(self.adapter.dtype).eps
            self._acts = self._acts or bool(((factor - 1).abs() > rounding).any())
            merged *= factor[..., None]
        weight[..., rows, :] = merged

    def _factors(self, name: str) -> dict[str, Factors]:
        path = self._adapted[name]
        if self._read is None or self._read[0] != path:
            self._read = path, self.adapter.parts(path)
        return self._read[1]

    def require_changes(self) -> list[str]:
        """Find out, when all is read, whether merging changed the weights; returns what to tell.

        Raises:
            RunRefused: the adapter is as it began.
            RunFailed: it changed none, because what is added is too small for the type.
        """
        if not self._acts:
            raise RunRefused(f"{self.adapter.path} changes no weight: its lora_b are zero, as an adapter begins")
        unchanged = sorted(name for name, changed in self._changed.items() if not changed)
        if len(unchanged) == len(self._changed):
            dtype = str(self.held[unchanged[0]].dtype).removeprefix("torch.")
            raise RunFailed(
                f"merging {self.adapter.path} changes no weight: what it adds is lost in rounding to {dtype}"
            )
        if not unchanged:
            return []
        return [f"{len(unchanged)} of {len(self._changed)} adapted weights come out as they were: {some(unchanged)}"]


def _narrowed(factors: Factors, stack: Sequence[slice], rows: Tensor) -> Factors:
    """Of these experts, and the rows of B that `rows` is true for."""
    here = tuple(stack)
    magnitude = None if factors.magnitude is None else factors.magnitude[here][..., rows]
    return Factors(factors.a[here], factors.b[here][..., rows, :], magnitude)
