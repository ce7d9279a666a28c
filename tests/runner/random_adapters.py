"""Adapters of random numbers beside a model, as native checkpoints; and models with transformers and peft."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from trainwright.recipes.adapters import adapted, linears
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.config.peft import PeftConfig
from trainwright.runner.checkpoints.adapter import AdapterWeights, shapes
from trainwright.runner.checkpoints.adapter_rows import Factors
from trainwright.runner.checkpoints.base import Base
from trainwright.runner.checkpoints.conversion import open_weights
from trainwright.runner.checkpoints.fingerprint import fingerprint
from trainwright.runner.checkpoints.write_weights import write_weights

LORA = PeftConfig(dim=4, alpha=6)
WHOLE = ["linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"]
APART = ["linear_q", "linear_k", "linear_v", "linear_proj", "linear_fc1_gate", "linear_fc1_up", "linear_fc2"]


@dataclass
class Random:
    """An `Adapter` of numbers that follow from the names."""

    model: ModelConfig
    peft: PeftConfig
    base: Base | None = None
    dtype: torch.dtype = torch.float32
    path: Path = Path("random")
    kind: str = "random adapter"
    scale_of_b: float = 0.02
    remarks: list[str] = field(default_factory=list)

    @property
    def layers(self) -> Mapping[str, tuple[str, ...]]:
        chosen = adapted(self.model, self.peft)
        return {one.linear.path: tuple(part.name for part in one.parts) for one in chosen}

    def parts(self, path: str) -> dict[str, Factors]:
        linear = next(linear for linear in linears(self.model) if linear.path == path)
        return {part: self._part(f"{path} {part}", shapes(linear, part, self.peft)) for part in self.layers[path]}

    def _part(self, name: str, wanted: dict[str, tuple[int, ...]]) -> Factors:
        draw = torch.Generator().manual_seed(int.from_bytes(name.encode()[-7:], "big") % 2**31)
        tensors = {kind: torch.randn(shape, generator=draw).to(self.dtype) for kind, shape in wanted.items()}
        magnitude = tensors["magnitude"].abs() + 0.5 if "magnitude" in tensors else None
        return Factors(tensors["lora_a"], self.scale_of_b * tensors["lora_b"], magnitude)


def targets_of(model: ModelConfig, *, apart: bool = False) -> list[str]:
    """Every linear layer of a model."""
    if model.multi_latent_attention:
        names = {linear.name for linear in linears(model)} - {"linear_fc1"}
        return sorted(names) + (["linear_fc1_gate", "linear_fc1_up"] if apart else ["linear_fc1"])
    return APART if apart else WHOLE


def native_adapter(base: Path, place: Path, *, apart: bool = False, **changes: Any) -> Random:
    """Write a random adapter for every layer of the model at `base` as a native checkpoint, and return it."""
    weights = open_weights(base)
    model = weights.model
    assert model is not None
    target_modules = changes.pop("target_modules", targets_of(model, apart=apart))
    of = {name: changes.pop(name) for name in ("scale_of_b", "dtype") if name in changes}
    peft = PeftConfig.model_validate(LORA.model_dump() | {"target_modules": target_modules} | changes)
    adapter = Random(model, peft, Base.of(weights, fingerprint(weights)), **of)
    place.mkdir(parents=True)
    common = {"model": model.model_dump(), "peft": peft.model_dump(), "base": adapter.base.common()}  # type: ignore[union-attr]
    write_weights(AdapterWeights(adapter), place, {"trainwright": common}, lambda _: None)
    return adapter


def logits(folder: Path, ids: torch.Tensor, adapter: Path | None = None) -> torch.Tensor:
    """What transformers computes, with an adapter that peft loads, which has to find every key and no other."""
    from peft import PeftConfig as TheirConfig
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    if adapter is not None:
        model = PeftModel(model, TheirConfig.from_pretrained(adapter))
        found = model.load_adapter(adapter, "default")
        assert not found.missing_keys, found.missing_keys[:3]
        assert not found.unexpected_keys, found.unexpected_keys[:3]
        model.eval()
    with torch.no_grad():
        return model(input_ids=ids).logits.float()
