"""Adapters as some checkpoint holds them, read a layer at a time, and their names in native checkpoints.

    {layer}.adapter.{part}.lora_a      [dim, columns]
    {layer}.adapter.{part}.lora_b      [rows, dim]
    {layer}.adapter.{part}.magnitude   [rows], of DoRA

Those of experts are stacked in a first dimension, as their weights are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trainwright.recipes.adapters import Linear, linears, matches
from trainwright.runner.checkpoints.adapter_rows import Factors
from trainwright.runner.checkpoints.native import ADAPTER
from trainwright.runner.checkpoints.weights import Weight
from trainwright.runner.errors import RunRefused
from trainwright.runner.models.layer_pattern import LAYERS_PER_BLOCK

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from trainwright.recipes.config.model import ModelConfig
    from trainwright.recipes.config.peft import PeftConfig
    from trainwright.runner.checkpoints.base import Base

KINDS = {"lora_a": "a", "lora_b": "b", "magnitude": "magnitude"}
"""How names end, and which field of `Factors` it is."""


class Adapter(Protocol):
    """The adapters of a model's layers."""

    path: Path
    kind: str
    """What it is, for a person."""
    peft: PeftConfig
    model: ModelConfig
    """The model that they belong to."""
    base: Base | None
    """The weights that they were trained beside; null where nothing says."""
    dtype: torch.dtype
    """Of all its tensors, or what they are read as."""
    remarks: list[str]

    @property
    def layers(self) -> Mapping[str, tuple[str, ...]]:
        """Path of a layer, as `recipes.adapters.linears` has it, to the parts of its adapter."""
        ...

    def parts(self, path: str) -> dict[str, Factors]:
        """The factors of a layer's parts, on the CPU."""
        ...


def by_path(model: ModelConfig) -> dict[str, Linear]:
    """The layers of a model that can have an adapter."""
    return {linear.path: linear for linear in linears(model)}


def weight_of(linear: Linear) -> str:
    """Name of the layer's weight in a native checkpoint; the experts of a block are one, stacked."""
    begin, number, rest = _split(linear.path)
    layer = int(not rest.startswith("self_attention."))
    rest = rest.replace("mlp.experts.", "mlp.experts.experts.")
    if begin == "decoder":
        return f"decoder.layers.{LAYERS_PER_BLOCK * number + layer}.{rest}.weight"
    return f"mtp.layers.{number}.mtp_model_layer.layers.{layer}.{rest}.weight"


def _split(path: str) -> tuple[str, int, str]:
    begin, _, number, rest = path.split(".", 3)
    return begin, int(number), rest


def key(weight: str, part: str, kind: str) -> str:
    """Name of a parameter of the adapter beside the layer with this weight."""
    return f"{weight.removesuffix('.weight')}{ADAPTER}{part}.{kind}"


def shapes(linear: Linear, part: str, peft: PeftConfig) -> dict[str, tuple[int, ...]]:
    """Of the parameters of a part, by kind."""
    rows = next((one.rows for one in linear.fused if one.name == part), linear.rows)
    stack = () if linear.experts is None else (linear.experts,)
    found = {"lora_a": (*stack, peft.dim, linear.columns), "lora_b": (*stack, rows, peft.dim)}
    return found | ({"magnitude": (*stack, rows)} if peft.scheme == "dora" else {})


def require_shape(
    linear: Linear, part: str, kind: str, found: Sequence[int] | None, peft: PeftConfig, *, where: object
) -> None:
    """Find out whether a parameter has the shape that the layer and the rank ask for; null means it is not there.

    Raises:
        RunRefused: it has not.
    """
    wanted = shapes(linear, part, peft)[kind]
    if found is None:
        raise RunRefused(f"{where} lacks the {kind} of {linear.path}, part {part}")
    if tuple(found) == wanted:
        return
    ranks = {"lora_a": -2, "lora_b": -1}
    other = kind in ranks and len(found) == len(wanted) and found[ranks[kind]] != peft.dim
    rank = f": it is of rank {found[ranks[kind]]} and not {peft.dim}" if other else ""
    raise RunRefused(
        f"{where}: the {kind} of {linear.path}, part {part}, is {list(found)} and not {list(wanted)}{rank}"
    )


def targets(model: ModelConfig, layers: Mapping[str, tuple[str, ...]]) -> list[str]:
    """`peft.target_modules` that mean these parts of these layers and no others: bare names where those do, else
    patterns for all blocks, else whole paths."""
    every: dict[str, str] = {}
    for linear in linears(model):
        every |= {linear.path_of(name): name for name in (linear.name, *(part.name for part in linear.fused))}
    wanted = {f"{path.rpartition('.')[0]}.{name}" for path, parts in layers.items() for name in parts}
    found: list[str] = []
    for path in every:
        if path in wanted and not any(matches(pattern, path) for pattern in found):
            tries = (every[path], f"decoder.*.{path.split('.', 3)[3]}", path)
            found.append(next(one for one in tries if {p for p in every if matches(one, p)} <= wanted))
    return found


class AdapterWeights:
    """A `Weights` over an adapter, under the names of native checkpoints. One layer at a time is in memory."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter, self.path, self.kind = adapter, adapter.path, adapter.kind
        self.model: ModelConfig | None = adapter.model
        self.remarks = adapter.remarks
        self._read: tuple[str, dict[str, Factors]] | None = None

    @cached_property
    def held(self) -> dict[str, Weight]:
        known, found = by_path(self.adapter.model), {}
        for name, (path, part, _) in self._places.items():
            shape = shapes(known[path], part, self.adapter.peft)[name.rpartition(".")[2]]
            found[name] = Weight(shape, self.adapter.dtype, (((0,) * len(shape), shape),))
        return found

    def block(self, name: str, offsets: Sequence[int], sizes: Sequence[int]) -> Tensor:
        part = self._tensor(name)
        for dimension, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
            part = part.narrow(dimension, offset, size)
        return part

    @cached_property
    def _places(self) -> dict[str, tuple[str, str, str]]:
        """Name to the layer's path, the part and the field."""
        known = by_path(self.adapter.model)
        return {
            key(weight_of(known[path]), part, kind): (path, part, KINDS[kind])
            for path, parts in self.adapter.layers.items()
            for part in parts
            for kind in shapes(known[path], part, self.adapter.peft)
        }

    def _tensor(self, name: str) -> Tensor:
        path, part, field = self._places[name]
        if self._read is None or self._read[0] != path:
            self._read = path, self.adapter.parts(path)
        found: Tensor = getattr(self._read[1][part], field)
        return found
