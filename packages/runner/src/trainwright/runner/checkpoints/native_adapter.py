"""The adapters of a native checkpoint, of a run or imported."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.runner.checkpoints.adapter import KINDS, by_path, key, require_shape, shapes, weight_of
from trainwright.runner.checkpoints.adapter_rows import Factors
from trainwright.runner.checkpoints.base import Base
from trainwright.runner.checkpoints.native import ADAPTER, NativeWeights
from trainwright.runner.errors import RunRefused

if TYPE_CHECKING:
    from trainwright.recipes.adapters import Linear
    from trainwright.recipes.config.model import ModelConfig
    from trainwright.recipes.config.peft import PeftConfig

KEY = re.compile(rf"(.+){re.escape(ADAPTER)}(\w+)\.(\w+)")


class NativeAdapter:
    """An `Adapter` over one `torch_dist` checkpoint."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            RunRefused: it is damaged, holds no adapter, does not say of what, or not the parameters that it says.
        """
        from trainwright.runner.checkpoints.conversion import require_model

        self.weights = NativeWeights(path, only="adapters")
        self.path, self.kind = path, "native adapter checkpoint"
        self.remarks: list[str] = []
        if not self.weights.held:
            raise RunRefused(f"{path} holds no adapter: its weights are the model's own")
        self.model: ModelConfig = require_model(self.weights)
        self.known = by_path(self.model)
        self.peft = self._peft()
        self.base = Base.in_common(self.weights.common or {})
        self.dtype = next(iter(self.weights.held.values())).dtype
        self._require_shapes()

    @property
    def whole_model(self) -> bool:
        """Whether the model's own weights lie beside the adapter, as where there was no base."""
        return self.base is None and bool(NativeWeights(self.path, only="model").held)

    def _peft(self) -> PeftConfig:
        from trainwright.recipes.config.peft import PeftConfig

        run, common = self.weights.run, self.weights.common or {}
        found = run.peft if run is not None else common.get("peft")
        if found is None:
            raise RunRefused(f"{self.path} holds adapters and does not say of which rank and scale")
        return found if isinstance(found, PeftConfig) else PeftConfig.model_validate(found)

    @cached_property
    def layers(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for layer, part, _ in _parsed(self.weights.held):
            found.setdefault(layer, []).append(part)
        known = {weight_of(linear).removesuffix(".weight"): linear for linear in self.known.values()}
        lost = sorted(found.keys() - known.keys())
        if lost:
            raise RunRefused(f"{self.path} has an adapter of {lost[0]}, which is no linear layer of its model")
        return {linear.path: _in_order(linear, found[layer]) for layer, linear in known.items() if layer in found}

    def _require_shapes(self) -> None:
        wanted = set()
        for path, parts in self.layers.items():
            for part in parts:
                for kind in shapes(self.known[path], part, self.peft):
                    name = self._key(path, part, kind)
                    shape = self.weights.held[name].shape if name in self.weights.held else None
                    require_shape(self.known[path], part, kind, shape, self.peft, where=self.path)
                    wanted.add(name)
        left = sorted(self.weights.held.keys() - wanted)
        if left:
            raise RunRefused(f"{self.path} holds {left[0]}, which an adapter of {self.peft.scheme} does not have")

    def _key(self, path: str, part: str, kind: str) -> str:
        return key(weight_of(self.known[path]), part, kind)

    def parts(self, path: str) -> dict[str, Factors]:
        linear, found = self.known[path], {}
        for part in self.layers[path]:
            tensors = {
                KINDS[kind]: self.weights.block(self._key(path, part, kind), (0,) * len(shape), shape).to(self.dtype)
                for kind, shape in shapes(linear, part, self.peft).items()
            }
            found[part] = Factors(**tensors)
        return found


def _parsed(names: Iterable[str]) -> Iterable[tuple[str, str, str]]:
    for name in names:
        found = KEY.fullmatch(name)
        if found is not None:
            layer, part, kind = found.groups()
            yield layer, part, kind


def _in_order(linear: Linear, parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in (linear.name, *(part.name for part in linear.fused)) if name in set(parts))
