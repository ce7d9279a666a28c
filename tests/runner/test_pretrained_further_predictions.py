"""Published weights with multi-token prediction start a run without it: left out, and said on one line."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.runner.huggingface_models import LENGTH, VOCABULARY, ids, logits, make
from tests.runner.small_models import start_groups

from trainwright.runner.checkpoints.conversion import import_huggingface
from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed
PIPELINE = {"pipeline_model_parallel_size": 2, "num_layers_in_first_pipeline_stage": 1}
GATE = 1e-5


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, torch.Tensor]:
    """A DeepSeek of three blocks, saved as four of which the last predicts further; and the logits of the three."""
    folder = tmp_path_factory.mktemp("deepseek")
    model = make("deepseek", num_hidden_layers=3)
    model.save_pretrained(folder)
    with torch.no_grad():
        wanted: torch.Tensor = model(input_ids=ids()).logits
    tensors = load_file(folder / "model.safetensors")
    last, further = "model.layers.2.", "model.layers.3."
    tensors |= {
        further + name.removeprefix(last): tensor + 1 for name, tensor in tensors.items() if name.startswith(last)
    }
    tensors |= {f"{further}{name}.weight": torch.ones(64) for name in ("enorm", "hnorm", "shared_head.norm")}
    tensors[f"{further}eh_proj.weight"] = torch.ones(64, 128)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"num_nextn_predict_layers": 1}), encoding="utf-8")
    return folder, wanted


def load(
    checkpoint: Path, wanted: torch.Tensor, topology: dict[str, Any], further: int | None
) -> tuple[list[str], float]:
    """What the run tells, and how far this rank's logits are from those wanted: 0 where it has none."""
    from megatron.core import parallel_state

    from trainwright.runner.checkpoints.conversion import open_weights, require_model
    from trainwright.runner.checkpoints.pretrained import load_pretrained
    from trainwright.runner.checkpoints.verification import plain_run
    from trainwright.runner.models import build_model

    plain = plain_run(require_model(open_weights(checkpoint)), LENGTH)
    model = plain.model.model_copy(update=topology | {"mtp_num_layers": further})
    config = plain.model_copy(update={"model": model})
    start_groups(config)
    chunks = build_model(config, vocab_size=VOCABULARY)
    # Of a trainer what loading looks at; nothing is trained.
    optimizer = SimpleNamespace(reload_model_params=lambda: None)
    trainer: Any = SimpleNamespace(chunks=chunks, resolved=SimpleNamespace(config=config), optimizer=optimizer)
    remarks = load_pretrained(trainer, checkpoint, None)
    found = logits(chunks)
    parallel_state.destroy_model_parallel()
    return remarks, 0.0 if found is None else (found[..., :VOCABULARY] - wanted).abs().max().item()


@pytest.mark.parametrize(("ranks", "topology"), [(1, {}), (2, PIPELINE)])
def test_a_run_without_further_predictions_computes_what_transformers_does(published, ranks, topology):
    """Straight from the directory."""
    folder, wanted = published
    further = (tensor for name, tensor in load_file(folder / "model.safetensors").items() if ".layers.3." in name)
    elements = sum(tensor.numel() for tensor in further)
    found = run_ranks(load, ranks, folder, wanted, topology, None)
    for remarks, _ in found:
        said = [remark for remark in remarks if "multi-token prediction" in remark]
        assert said == [f"left out: {elements:,} parameters of multi-token prediction, as model.mtp_num_layers is null"]
    assert 0 < max(difference for _, difference in found) < GATE


def test_a_native_checkpoint_is_read_in_the_same_way(published, tmp_path):
    folder, wanted = published
    import_huggingface(folder, tmp_path / "native", lambda _: None)
    ((remarks, difference),) = run_ranks(load, 1, tmp_path / "native", wanted, {}, None)
    assert any("left out" in remark for remark in remarks)
    assert 0 < difference < GATE


def test_a_run_with_further_predictions_takes_all(published):
    folder, wanted = published
    ((remarks, difference),) = run_ranks(load, 1, folder, wanted, {}, 1)
    assert not any("left out: " in remark for remark in remarks)
    assert difference < GATE
