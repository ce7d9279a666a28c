"""Adapters in PEFT's format: peft loads ours, we read its own, and what they compute is the same."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.runner.huggingface_models import make
from tests.runner.random_adapters import logits, native_adapter

from trainwright.runner.checkpoints.adapter import AdapterWeights
from trainwright.runner.checkpoints.adapter_conversion import export_adapter, import_peft, merge, open_native_adapter
from trainwright.runner.checkpoints.weights import Weights

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
