"""Merged weights are base and adapter: within their type, and in what a model computes on one rank and on two."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.runner.huggingface_models import LENGTH, VOCABULARY, logits, make
from tests.runner.random_adapters import LORA, Random, native_adapter

from trainwright.runner.checkpoints.adapter import by_path, weight_of
from trainwright.runner.checkpoints.adapter_conversion import merge
from trainwright.runner.checkpoints.adapter_rows import Factors, part_rows
from trainwright.runner.checkpoints.conversion import open_weights
from trainwright.runner.checkpoints.merging import MergedWeights
from trainwright.runner.checkpoints.weights import Weights
from trainwright.runner.errors import RunRefused
from trainwright.runner.testing import run_ranks

GATE = 1e-5
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "grouped queries, LoRA": ("llama", {}),
    "grouped queries, DoRA of parts": ("llama", {"scheme": "dora", "apart": True}),
    "latents and experts, LoRA of parts": ("deepseek", {"apart": True}),
    "latents and experts, DoRA": ("deepseek", {"scheme": "dora"}),
}


def quiet(_: int) -> None: ...


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base, an adapter and both merged for each case."""
    path = tmp_path_factory.mktemp("merging")
    for case, (family, changes) in CASES.items():
        make(family).save_pretrained(path / case / "base")
        native_adapter(path / case / "base", path / case / "adapter", **changes)
        merge(path / case / "adapter", path / case / "merged", quiet)
    return path


def differences(folder: Path, tensor_parallel: int) -> dict[str, tuple[float, float]]:
    """On this rank, for each case: how far the merged model is from base and adapter, and how far from the base."""
    return {case: _differences(folder / case, tensor_parallel) for case in CASES}


def _differences(place: Path, tensor_parallel: int) -> tuple[float, float]:
    from megatron.core import parallel_state

    beside, merged, base = (
        _logits(place / name, place / "adapter" if adapter else None, tensor_parallel)
        for name, adapter in (("base", True), ("merged", False), ("base", False))
    )
    parallel_state.destroy_model_parallel()
    largest = merged.abs().max()
    return ((beside - merged).abs().max() / largest).item(), ((base - merged).abs().max() / largest).item()


def _logits(weights_at: Path, adapter_at: Path | None, tensor_parallel: int) -> torch.Tensor:
    from megatron.core import parallel_state
    from tests.runner.small_models import start_groups

    from trainwright.runner.adapters.attach import attach
    from trainwright.runner.checkpoints.adapter import AdapterWeights
    from trainwright.runner.checkpoints.adapter_conversion import open_native_adapter
    from trainwright.runner.checkpoints.conversion import open_weights, require_model
    from trainwright.runner.checkpoints.pretrained import fill
    from trainwright.runner.checkpoints.verification import plain_run
    from trainwright.runner.models import build_model

    weights = open_weights(weights_at)
    plain = plain_run(require_model(weights), LENGTH)
    topology = {"tensor_model_parallel_size": tensor_parallel, "sequence_parallel": tensor_parallel > 1}
    config = plain.model_copy(update={"model": plain.model.model_copy(update=topology)})
    parallel_state.destroy_model_parallel()
    start_groups(config)
    chunks = build_model(config, vocab_size=VOCABULARY)
    if adapter_at is not None:
        adapter = open_native_adapter(adapter_at)
        attach(chunks, config, adapter.peft)
        fill(chunks, AdapterWeights(adapter), adapters=True)
    fill(chunks, weights)
    found = logits(chunks)
    assert found is not None
    return found


@pytest.mark.distributed
@pytest.mark.parametrize("tensor_parallel", [1, 2])
def test_the_merged_model_computes_what_base_and_adapter_do(folder: Path, tensor_parallel: int) -> None:
    for of_rank in run_ranks(differences, tensor_parallel, folder, tensor_parallel):
        for case, (from_both, from_base) in of_rank.items():
            assert from_both < GATE, case
            assert from_base > 100 * GATE, case


@pytest.mark.parametrize("scheme", ["lora", "dora"])
def test_merged_weights_are_rounded_once(scheme: str, tmp_path: Path) -> None:
    """bfloat16 has 8 bits: half a unit in the last place is 2^-8 of a number, at most."""
    make("llama").bfloat16().save_pretrained(tmp_path / "base")
    adapter = native_adapter(tmp_path / "base", tmp_path / "adapter", scheme=scheme, apart=True, dtype=torch.bfloat16)
    merge(tmp_path / "adapter", tmp_path / "merged", quiet)
    base, merged = (load_file(tmp_path / name / "model.safetensors") for name in ("base", "merged"))
    for part, theirs in {"linear_q": "q_proj", "linear_v": "v_proj"}.items():
        factors = adapter.parts("decoder.layers.1.self_attention.linear_qkv")[part]
        name = f"model.layers.1.self_attn.{theirs}.weight"
        wanted = base[name].double() + adapter.peft.alpha / adapter.peft.dim * factors.b.double() @ factors.a.double()
        if factors.magnitude is not None:
            wanted *= (factors.magnitude.double() / wanted.norm(dim=1))[:, None]
        assert merged[name].dtype == torch.bfloat16
        assert ((merged[name].double() - wanted).abs() <= wanted.abs() * 2**-8 + 1e-7).all()
        assert not torch.equal(merged[name], base[name])
    assert torch.equal(merged["model.norm.weight"], base["model.norm.weight"])


@dataclass
class Fresh(Random):
    """As adapters begin: B of zeros, and magnitudes that are the lengths of the base's rows."""

    weights: Any = None

    def parts(self, path: str) -> dict[str, Factors]:
        linear = by_path(self.model)[path]
        weight = whole(self.weights, weight_of(linear)).float()
        return {
            name: Factors(
                one.a, one.b * 0, weight[..., part_rows(linear, name, self.model), :].norm(dim=-1).to(self.dtype)
            )
            for name, one in super().parts(path).items()
        }


def whole(weights: Weights, name: str) -> torch.Tensor:
    shape = weights.held[name].shape
    return weights.block(name, (0,) * len(shape), shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_dora_adapter_as_it_began_is_no_merge_unnoticed(dtype: torch.dtype, tmp_path: Path) -> None:
    """Its magnitudes give rows the lengths that they have, but for rounding; one that was trained does not."""
    make("deepseek").to(dtype).save_pretrained(tmp_path)
    weights = open_weights(tmp_path)
    assert weights.model is not None
    peft = LORA.model_copy(update={"scheme": "dora", "target_modules": ["linear_proj", "linear_fc1"]})
    fresh = Fresh(weights.model, peft, dtype=dtype, weights=weights)
    for adapter, refused in ((fresh, True), (Random(weights.model, peft, dtype=dtype), False)):
        merged = MergedWeights(weights, adapter)
        for name in merged.held:
            whole(merged, name)
        if refused:
            with pytest.raises(RunRefused, match="changes no weight: its lora_b are zero, as an adapter begins"):
                merged.require_changes()
        else:
            assert merged.require_changes() == []
