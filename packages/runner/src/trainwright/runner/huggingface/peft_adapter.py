"""An adapter in PEFT's format, under our names."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from trainwright.recipes.adapters import Linear
from trainwright.recipes.config.peft import PeftConfig
from trainwright.runner.checkpoints.adapter import targets
from trainwright.runner.checkpoints.adapter_rows import Factors
from trainwright.runner.checkpoints.base import Base
from trainwright.runner.errors import RunRefused
from trainwright.runner.huggingface.families import family_of_model
from trainwright.runner.huggingface.folder import header_of, open_file
from trainwright.runner.huggingface.peft_factors import from_peft, own_parts
from trainwright.runner.huggingface.peft_layout import Layer, Theirs, layers
from trainwright.runner.huggingface.peft_settings import ADAPTER_FILE, read_settings
from trainwright.runner.huggingface.quantised import PLAIN
from trainwright.runner.huggingface.rules import some

if TYPE_CHECKING:
    from torch import Tensor

    from trainwright.recipes.config.model import ModelConfig

PREFIX = "base_model.model."
NAME = re.compile(rf"{re.escape(PREFIX)}(.+)\.(?:lora_(A|B)\.weight|lora_(magnitude)_vector(?:\.weight)?)")
STACKED_FIRST = ".base_layer"
"""Stands behind a module of which several parameters are adapted, for all but the last of them."""
FINGERPRINT, BASE_PATH = "trainwright_base_fingerprint", "trainwright_base"
"""Words of the file's header: of which weights it is. peft itself does not say."""

Found = dict[str, str]
"""`A`, `B` and `magnitude` to the name of a tensor in the file."""


class PeftAdapter:
    """An `Adapter` over a folder; opening it reads no tensors."""

    def __init__(
        self, path: Path, model: ModelConfig, parts_of: Callable[[Linear], tuple[str, ...]] | None = None
    ) -> None:
        """Of adapters for `model`. `parts_of` says which parts a layer is wanted in; by default as few as can be.

        Raises:
            RunRefused: the folder is damaged, says what is not known here, or is of another model.
        """
        self.path, self.model, self.kind = path, model, "adapter in PEFT's format"
        self.settings = read_settings(path)
        self._file = open_file(path / ADAPTER_FILE, "pt")
        self._header = {name: (kind, shape) for name, kind, shape in header_of(path / ADAPTER_FILE)}
        self._modules = self._found(self._header)
        self._layers = self._used(layers(family_of_model(model), model))
        self._parts_of = parts_of
        self.dtype = self._dtype()
        self._require_shapes()
        self.remarks: list[str] = []
        self.scale = self._scale()
        self.base = self._base()

    def _found(self, names: Iterable[str]) -> dict[str, Found]:
        """Modules to their tensors."""
        found: dict[str, Found] = {}
        strange = sorted(name for name in names if NAME.fullmatch(name) is None)
        if strange:
            raise RunRefused(f"{self.path / ADAPTER_FILE} holds what no adapter here has: {some(strange)}")
        for name in names:
            module, which, magnitude = NAME.fullmatch(name).groups()  # type: ignore[union-attr]
            found.setdefault(module, {})[which or magnitude] = name
        if not found:
            raise RunRefused(f"{self.path / ADAPTER_FILE} holds no tensors")
        return found

    def _used(self, every: list[Layer]) -> list[tuple[Layer, dict[str, list[Found]]]]:
        """Layers that have an adapter, and for each of their modules its tensors: one group, or one for each expert."""
        left, used = set(self._modules), []
        for layer in every:
            here = {}
            for theirs in layer.theirs:
                modules = self._modules_of(theirs, layer.linear)
                if modules:
                    here[theirs.name] = [self._modules[module] for module in modules]
                    left -= set(modules)
            if here:
                used.append((layer, here))
        if left:
            raise RunRefused(
                f"{self.path} belongs to another model: this one has no {some(sorted(left))}, which it adapts"
            )
        return used

    def _modules_of(self, theirs: Theirs, linear: Linear) -> list[str]:
        """Modules of the file that adapt a module of theirs; of stacked experts one, or one for each of each."""
        if not theirs.members:
            return [theirs.name] if theirs.name in self._modules else []
        apart = [
            member.replace(".experts.0.", f".experts.{number}.")
            for number in range(int(linear.experts or 0))
            for member in theirs.members
            if member != theirs.name
        ]
        if any(name in self._modules for name in apart):
            missing = [name for name in apart if name not in self._modules]
            if missing:
                raise RunRefused(f"{self.path} adapts experts, and not {some(missing)}")
            return apart
        if not any(theirs.name == one or theirs.name.endswith(f".{one}") for one in self.settings.parameters):
            return []
        inner = theirs.module + STACKED_FIRST
        first = theirs.name.endswith("gate_up_proj") and inner in self._modules
        return [inner if first else theirs.module] if theirs.module in self._modules else []

    def _ranks(self) -> dict[str, int]:
        """Names as patterns mean them, and the rank that their A has."""
        found = {}
        for layer, here in self._layers:
            for theirs in layer.theirs:
                for group in here.get(theirs.name, ()):
                    stacked = theirs.members and len(here[theirs.name]) == 1
                    rank = self._shape(group, "A")[0] // (int(layer.linear.experts or 1) if stacked else 1)
                    module = NAME.fullmatch(group["A"]).group(1)  # type: ignore[union-attr]
                    found[theirs.name if stacked else module] = rank
        return found

    def _shape(self, group: Found, which: str) -> tuple[int, ...]:
        if which not in group:
            word = "lora_magnitude_vector" if which == "magnitude" else f"lora_{which}"
            raise RunRefused(f"{self.path / ADAPTER_FILE} has {next(iter(group.values()))} without its {word}")
        shape = self._header[group[which]][1]
        if len(shape) != (1 if which == "magnitude" else 2):
            raise RunRefused(f"{self.path / ADAPTER_FILE}: {group[which]} has the shape {list(shape)}")
        return shape

    def _dtype(self) -> torch.dtype:
        """The type that holds what all tensors hold."""
        for name, (kind, _) in self._header.items():
            if kind not in PLAIN:
                raise RunRefused(f"{self.path / ADAPTER_FILE}: {name} is of type {kind}, which is not known here")
        types = (getattr(torch, PLAIN[kind]) for kind, _ in self._header.values())
        return reduce(torch.promote_types, types)

    def _scale(self) -> float:
        """By which all adapters are multiplied."""
        settings, ranks = self.settings, self._ranks()
        scales = {name: settings.scale(name, rank) for name, rank in ranks.items()}
        low, high = min(scales, key=scales.__getitem__), max(scales, key=scales.__getitem__)
        if not math.isclose(scales[low], scales[high]):
            raise RunRefused(
                f"{settings.where}: {low} is multiplied by {scales[low]:g} and {high} by {scales[high]:g}; adapters "
                "have one scale here (peft.alpha / peft.dim)"
            )
        if settings.rank_stabilised:
            self.remarks.append(f"use_rslora: the scale {scales[low]:g} becomes alpha={scales[low] * settings.rank:g}")
        return scales[low]

    @property
    def _alpha(self) -> float:
        """Of the one scale; as it is said, where that is it."""
        alpha = self.scale * self.settings.rank
        return self.settings.alpha if math.isclose(alpha, self.settings.alpha) else alpha

    @cached_property
    def peft(self) -> PeftConfig:
        """The section that means these adapters."""
        return PeftConfig(
            scheme="dora" if self.settings.dora else "lora",
            dim=self.settings.rank,
            alpha=self._alpha,
            dropout=self.settings.dropout,
            target_modules=targets(self.model, self.layers),
        )

    def _base(self) -> Base | None:
        words: dict[str, str] = self._file.metadata() or {}
        if FINGERPRINT not in words:
            return None
        return Base(words.get(BASE_PATH, ""), words[FINGERPRINT])

    @cached_property
    def layers(self) -> dict[str, tuple[str, ...]]:
        if self._parts_of is not None:
            wanted = {layer.linear.path: self._parts_of(layer.linear) for layer, _ in self._layers}
            beyond = [path for path, parts in wanted.items() if not parts]
            if beyond:
                raise RunRefused(f"{self.path} also adapts {beyond[0]}, which peft.target_modules does not mean")
            return wanted
        return {
            layer.linear.path: own_parts(layer, self.model, self._factors(layer, here), self.settings.rank)
            for layer, here in self._layers
        }

    def parts(self, path: str) -> dict[str, Factors]:
        layer, here = next((layer, here) for layer, here in self._layers if layer.linear.path == path)
        found = self._factors(layer, here)
        try:
            return from_peft(layer, self.model, found, self.layers[path], self.settings.rank)
        except RunRefused as error:
            raise RunRefused(f"{self.path}: {error}") from error

    def _factors(self, layer: Layer, here: dict[str, list[Found]]) -> dict[str, Factors]:
        found = {}
        for theirs in layer.theirs:
            groups = [self._read(group) for group in here.get(theirs.name, ())]
            if not groups:
                continue
            if not theirs.members:
                found[theirs.name] = groups[0]
            elif len(groups) == 1:
                found[theirs.name] = _unstacked(groups[0], int(layer.linear.experts or 1))
            else:
                found[theirs.name] = _stacked(groups, len(theirs.members))
        return found

    def _read(self, group: Found) -> Factors:
        tensors: dict[str, Tensor] = {which: self._file.get_tensor(name) for which, name in group.items()}
        return Factors(**{
            {"A": "a", "B": "b", "magnitude": "magnitude"}[which]: tensor.to(self.dtype)
            for which, tensor in tensors.items()
        })  # fmt: skip

    def _require_shapes(self) -> None:
        """Find out whether tensors fit their modules. Ranks may differ here; `from_peft` looks at them."""
        for layer, here in self._layers:
            for theirs in layer.theirs:
                groups, rows, experts = here.get(theirs.name, []), len(theirs.rows), 1
                if theirs.members and len(groups) == 1:
                    experts = int(layer.linear.experts or 1)
                elif theirs.members:
                    rows //= len(theirs.members)
                for group in groups:
                    rank = self._shape(group, "A")[0] // experts
                    wanted: dict[str, tuple[int, ...]] = {
                        "A": (rank * experts, layer.linear.columns),
                        "B": (rows, rank * experts),
                    }
                    if self.settings.dora:
                        wanted["magnitude"] = (rows,)
                    self._require_group(group, wanted)

    def _require_group(self, group: Found, wanted: dict[str, tuple[int, ...]]) -> None:
        for which, shape in wanted.items():
            if self._shape(group, which) != shape:
                raise RunRefused(
                    f"{self.path / ADAPTER_FILE}: {group[which]} is {list(self._shape(group, which))} and not "
                    f"{list(shape)}"
                )
        if group.keys() - wanted.keys():
            raise RunRefused(f"{self.settings.where} says use_dora=false, and there is {group['magnitude']}")


def _unstacked(factors: Factors, experts: int) -> Factors:
    """peft keeps the experts' A one below the other, and in B the expert changes fastest along a row."""
    a, b = factors.a, factors.b
    return Factors(a.reshape(experts, -1, a.size(-1)), b.reshape(b.size(0), -1, experts).permute(2, 0, 1))


def _stacked(groups: list[Factors], members: int) -> Factors:
    """Adapters of each expert's own modules as one of the stack: of several members each has its share of the rank."""
    experts = [groups[begin : begin + members] for begin in range(0, len(groups), members)]
    a = torch.stack([torch.cat([one.a for one in expert]) for expert in experts])
    b = torch.stack([torch.block_diag(*(one.b for one in expert)) for expert in experts])
    lengths = [[one.magnitude for one in expert if one.magnitude is not None] for expert in experts]
    return Factors(a, b, torch.stack([torch.cat(expert) for expert in lengths]) if lengths[0] else None)
