"""Adapters in PEFT's format: peft loads ours, we read its own, and what they compute is the same."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.runner.huggingface_models import make
from tests.runner.random_adapters import LORA, Random, logits, native_adapter

from trainwright.runner.checkpoints.adapter import AdapterWeights
from trainwright.runner.checkpoints.adapter_conversion import (
    export_adapter,
    import_peft,
    merge,
    open_adapter,
    open_native_adapter,
)
from trainwright.runner.checkpoints.conversion import open_weights
from trainwright.runner.checkpoints.weights import Weights
from trainwright.runner.errors import RunRefused
from trainwright.runner.huggingface.peft_export import export_peft

IDS = torch.arange(20)[None] % 13 + 100
GATE = 2e-5


def quiet(_: int) -> None: ...


def save(name: str, folder: Path, **changes: Any) -> Path:
    make(name, **changes).save_pretrained(folder / "base")
    return folder / "base"


def tensors(weights: Weights) -> dict[str, torch.Tensor]:
    return {name: weights.block(name, (0,) * len(one.shape), one.shape) for name, one in weights.held.items()}


def there_and_back(name: str, tmp_path: Path, **changes: Any) -> None:
    """Export, load with peft, compare with the merged model, and import again."""
    base = save(name, tmp_path)
    native_adapter(base, tmp_path / "native", **changes)
    export_adapter(tmp_path / "native", tmp_path / "peft", quiet)
    merge(tmp_path / "native", tmp_path / "merged", quiet)
    beside, merged = logits(base, IDS, tmp_path / "peft"), logits(tmp_path / "merged", IDS)
    assert (beside - merged).abs().max() < GATE * merged.abs().max()
    assert (beside - logits(base, IDS)).abs().max() > 0.1

    import_peft(tmp_path / "peft", tmp_path / "again", base, quiet)
    before, after = (open_native_adapter(tmp_path / place) for place in ("native", "again"))
    assert after.layers == before.layers
    assert after.base == before.base
    assert (after.peft.dim, after.peft.alpha) == (before.peft.dim, before.peft.alpha)
    wanted, found = tensors(AdapterWeights(before)), tensors(AdapterWeights(after))
    assert all(torch.equal(found[key], wanted[key]) for key in wanted | found)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("llama", {}),
        ("qwen3", {"scheme": "dora", "apart": True}),
        ("gpt_oss", {"apart": True}),
        ("deepseek", {"apart": True}),
        ("qwen3_moe", {"target_modules": ["linear_v", "*.2.*.linear_fc2", "linear_fc1"]}),
    ],
)
def test_peft_loads_what_is_exported_and_computes_what_is_merged(
    name: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    """Grouped queries, latent attention; dense, shared and stacked experts; some layers alone."""
    there_and_back(name, tmp_path, **changes)


def written_by_peft(base: Path, place: Path, **settings: Any) -> None:
    """An adapter that peft made and saved, of random numbers."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), LoraConfig(task_type="CAUSAL_LM", **settings))
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(place)


STACKS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]


@pytest.mark.parametrize(
    ("name", "settings", "parts"),
    [
        (
            "llama",
            {"target_modules": ["q_proj", "v_proj", "down_proj"], "use_rslora": True},
            "linear_q linear_v linear_fc2",
        ),
        ("gpt_oss", {"target_modules": ["o_proj"], "target_parameters": STACKS}, "linear_proj linear_fc1 linear_fc2"),
        ("moonlight", {"target_modules": [], "target_parameters": STACKS[1:]}, "linear_fc2"),
    ],
)
def test_what_peft_wrote_becomes_the_same_model(
    name: str, settings: dict[str, Any], parts: str, tmp_path: Path
) -> None:
    """With another scale, of stacked experts both or one alone; which parts it names decides what is trained on."""
    base = save(name, tmp_path)
    written_by_peft(base, tmp_path / "peft", r=4, lora_alpha=6, **settings)
    adapter = import_peft(tmp_path / "peft", tmp_path / "native", base, quiet)
    assert {part for of_layer in adapter.layers.values() for part in of_layer} == set(parts.split())
    merge(tmp_path / "native", tmp_path / "merged", quiet)
    beside, merged = logits(base, IDS, tmp_path / "peft"), logits(tmp_path / "merged", IDS)
    assert (beside - merged).abs().max() < GATE * merged.abs().max()
    assert (beside - logits(base, IDS)).abs().max() > 0.1


def test_adapters_of_each_expert_apart_are_taken(tmp_path: Path) -> None:
    """As older versions wrote them, before transformers stacked experts; peft converts them as it loads."""
    base, place = save("qwen3_moe", tmp_path), tmp_path / "peft"
    names = {"gate_proj": (48, 64), "up_proj": (48, 64), "down_proj": (64, 48)}
    torch.manual_seed(2)
    held = {}
    for module in (f"layers.{layer}.mlp.experts.{one}" for layer in range(4) for one in range(8)):
        for name, (rows, columns) in names.items():
            begin = f"base_model.model.model.{module}.{name}.lora_"
            held |= {f"{begin}A.weight": torch.randn(4, columns) / 10, f"{begin}B.weight": torch.randn(rows, 4) / 10}
    place.mkdir()
    save_file(held, place / "adapter_model.safetensors")
    words = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, "target_modules": list(names)}
    (place / "adapter_config.json").write_text(json.dumps(words))
    adapter = import_peft(place, tmp_path / "native", base, quiet)
    assert adapter.peft.target_modules == ["linear_fc1_gate", "linear_fc1_up", "linear_fc2"]
    merge(tmp_path / "native", tmp_path / "merged", quiet)
    beside, merged = logits(base, IDS, place), logits(tmp_path / "merged", IDS)
    assert (beside - merged).abs().max() < GATE * merged.abs().max()


def test_a_run_names_the_parts_that_it_wants(tmp_path: Path) -> None:
    """One A for what is fused cannot be had of modules with their own; parts can always be had."""
    base = save("llama", tmp_path)
    written_by_peft(base, tmp_path / "peft", r=4, target_modules=["q_proj", "k_proj", "v_proj"])
    model = open_weights(base)
    single = open_adapter(tmp_path / "peft", model, parts_of=lambda linear: tuple(one.name for one in linear.fused))
    assert AdapterWeights(single).held
    fused = open_adapter(tmp_path / "peft", model, parts_of=lambda linear: (linear.name,))
    with pytest.raises(RunRefused, match=r"have an A each and linear_qkv one for all: target linear_q, linear_k"):
        AdapterWeights(fused).block("decoder.layers.0.self_attention.linear_qkv.adapter.linear_qkv.lora_a", (0,), (1,))
    with pytest.raises(RunRefused, match=r"also adapts decoder\.layers\.0\.self_attention\.linear_qkv, which peft"):
        _ = open_adapter(tmp_path / "peft", model, parts_of=lambda linear: ()).layers


def test_dora_of_experts_is_refused_with_the_way_out(tmp_path: Path) -> None:
    base = save("qwen3_moe", tmp_path)
    native_adapter(base, tmp_path / "native", scheme="dora")
    with pytest.raises(RunRefused, match=r"peft has no DoRA for .*experts.*merge-lora makes a model of it"):
        export_adapter(tmp_path / "native", tmp_path / "peft", quiet)
    assert not (tmp_path / "peft").exists()


def test_adapters_of_further_predictions_are_left_out_and_said(tmp_path: Path) -> None:
    base = save("deepseek", tmp_path)
    model = open_weights(base).model
    assert model is not None
    deeper = Random(model.model_copy(update={"mtp_num_layers": 1}), LORA.model_copy(update={"target_modules": ["*"]}))
    remarks = export_peft(deeper, tmp_path, base=None, dtype=None, progress=quiet)
    assert remarks == [
        "left out: adapters of multi-token prediction, which transformers does not compute "
        "(mtp.layers.0.self_attention.linear_q_down_proj)"
    ]
    assert not [name for name in load_file(tmp_path / "adapter_model.safetensors") if "layers.4" in name]
