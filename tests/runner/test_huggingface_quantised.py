"""Weights in few bits with scales beside them: read as what their publishers' code makes of them."""

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.runner.huggingface_models import make

from trainwright.runner.checkpoints.conversion import export_huggingface, import_huggingface, open_weights
from trainwright.runner.errors import RunRefused
from trainwright.runner.huggingface.quantised import block_scaled, mxfp4
from trainwright.runner.huggingface.weights import HuggingFaceWeights

FP8 = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [16, 32]}


def test_mxfp4_is_what_transformers_makes_of_it() -> None:
    """Every code with every scale that gives a finite bfloat16."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    generator = torch.Generator().manual_seed(0)
    blocks = torch.randint(0, 256, (3, 6, 4, 16), dtype=torch.uint8, generator=generator)
    scales = torch.randint(1, 252, (3, 6, 4), dtype=torch.uint8, generator=generator)
    blocks[0, 0].view(-1)[:64] = torch.arange(64) * 4
    wanted = convert_moe_packed_tensors(blocks, scales, dtype=torch.bfloat16)
    assert wanted.shape == (3, 128, 6)
    assert torch.equal(mxfp4(blocks, scales), wanted)
    assert torch.equal(mxfp4(blocks[1], scales[1]), wanted[1])


def test_a_block_of_fp8_is_multiplied_by_its_own_factor() -> None:
    """Blocks at the edges are smaller."""
    weight = (torch.arange(40 * 70).reshape(40, 70) % 17 - 8.0).to(torch.float8_e4m3fn)
    factors = torch.rand(3, 3) + 0.5
    found = block_scaled(weight, factors, (16, 32))
    for row in range(40):
        for column in range(70):
            wanted = weight[row, column].float() * factors[row // 16, column // 32]
            assert found[row, column] == wanted.to(torch.bfloat16)


def rewrite(folder: Path, tensors: dict[str, torch.Tensor], **settings: object) -> None:
    """Put other weights and settings into a directory."""
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | settings))


@pytest.fixture(scope="module")
def deepseek(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DeepSeek whose matrices of attention and experts are block-scaled FP8, and with a further prediction."""
    folder = tmp_path_factory.mktemp("deepseek")
    make("deepseek").to(torch.bfloat16).save_pretrained(folder)
    tensors = with_further_prediction(load_file(folder / "model.safetensors"), blocks=4)
    coded = {}
    for name, tensor in tensors.items():
        if name.endswith("_proj.weight") and "eh_proj" not in name:
            rows, columns = (math.ceil(size / block) for size, block in zip(tensor.shape, (16, 32), strict=True))
            coded[name] = (tensor.float() * 64).to(torch.float8_e4m3fn)
            coded[name + "_scale_inv"] = torch.full((rows, columns), 1 / 64) * (1 + torch.arange(rows)[:, None] / 8)
        else:
            coded[name] = tensor
    rewrite(folder, coded, quantization_config=FP8, num_nextn_predict_layers=1)
    return folder


def with_further_prediction(tensors: dict[str, torch.Tensor], *, blocks: int) -> dict[str, torch.Tensor]:
    """As DeepSeek-V3 is published: one block more, what is around it, and the vocabulary's weights again."""
    last, further = f"model.layers.{blocks - 1}.", f"model.layers.{blocks}."
    block = {further + name.removeprefix(last): tensor + 1 for name, tensor in tensors.items() if name.startswith(last)}
    hidden = tensors["model.norm.weight"].size(0)
    around = {
        "enorm.weight": torch.full((hidden,), 0.5, dtype=torch.bfloat16),
        "hnorm.weight": torch.full((hidden,), 0.25, dtype=torch.bfloat16),
        "eh_proj.weight": torch.arange(hidden * 2 * hidden).reshape(hidden, -1).to(torch.bfloat16),
        "shared_head.norm.weight": torch.full((hidden,), 2.0, dtype=torch.bfloat16),
        "embed_tokens.weight": tensors["model.embed_tokens.weight"].clone(),
        "shared_head.head.weight": tensors["lm_head.weight"].clone(),
    }
    return {**tensors, **block, **{further + name: tensor for name, tensor in around.items()}}


def test_fp8_comes_out_as_the_bfloat16_that_it_means(deepseek: Path, tmp_path: Path) -> None:
    import_huggingface(deepseek, tmp_path / "native", lambda _: None)
    export_huggingface(tmp_path / "native", tmp_path / "back", lambda _: None)
    source, back = load_file(deepseek / "model.safetensors"), load_file(tmp_path / "back" / "model.safetensors")
    assert back.keys() == {name for name in source if not name.endswith("_scale_inv")}
    assert "quantization_config" not in json.loads((tmp_path / "back" / "config.json").read_text())
    for name, tensor in back.items():
        factors = source.get(name + "_scale_inv")
        wanted = source[name] if factors is None else block_scaled(source[name], factors, (16, 32))
        assert tensor.dtype == wanted.dtype, name
        assert torch.equal(tensor, wanted), name


def test_further_predictions_are_kept_with_the_tensors_that_repeat_others(deepseek: Path) -> None:
    weights = open_weights(deepseek)
    assert weights.model is not None
    assert weights.model.mtp_num_layers == 1
    assert torch.equal(
        weights.block("mtp.layers.0.eh_proj.weight", (0, 0), (64, 128)),
        torch.arange(64 * 128).reshape(64, -1).to(torch.bfloat16),
    )
    assert "mtp.layers.0.mtp_model_layer.layers.1.mlp.experts.experts.linear_fc2.weight" in weights.held
    assert any("model.layers.4.shared_head.head.weight is left out" in remark for remark in weights.remarks)
    assert "fp8 weights are read as bfloat16" in weights.remarks


def test_a_repeated_tensor_that_differs_is_refused(deepseek: Path, tmp_path: Path) -> None:
    tensors = load_file(deepseek / "model.safetensors")
    tensors["model.layers.4.embed_tokens.weight"][3, 5] += 1
    (tmp_path / "config.json").write_bytes((deepseek / "config.json").read_bytes())
    rewrite(tmp_path, tensors)
    with pytest.raises(RunRefused, match=r"layers\.4\.embed_tokens\.weight has to repeat .*, and the two differ"):
        HuggingFaceWeights(tmp_path)


@pytest.fixture(scope="module")
def gpt_oss(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-OSS whose experts are MXFP4, as they are published."""
    folder = tmp_path_factory.mktemp("gpt_oss")
    make("gpt_oss").to(torch.bfloat16).save_pretrained(folder)
    generator, coded = torch.Generator().manual_seed(0), {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            experts, columns, rows = tensor.shape
            shape = (experts, rows, columns // 32)
            coded[name + "_blocks"] = torch.randint(0, 256, (*shape, 16), dtype=torch.uint8, generator=generator)
            coded[name + "_scales"] = torch.randint(120, 126, shape, dtype=torch.uint8, generator=generator)
        else:
            coded[name] = tensor
    rewrite(folder, coded, quantization_config={"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]})
    return folder


def test_mxfp4_comes_out_as_the_bfloat16_that_it_means(gpt_oss: Path, tmp_path: Path) -> None:
    import_huggingface(gpt_oss, tmp_path / "native", lambda _: None)
    export_huggingface(tmp_path / "native", tmp_path / "back", lambda _: None)
    source, back = load_file(gpt_oss / "model.safetensors"), load_file(tmp_path / "back" / "model.safetensors")
    assert len(back) == len([name for name in source if not name.endswith("_scales")])
    for name, tensor in back.items():
        coded = name + "_blocks" in source
        wanted = mxfp4(source[name + "_blocks"], source[name + "_scales"]) if coded else source[name]
        assert torch.equal(tensor, wanted), name


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"quantization_config": {"quant_method": "gptq"}}, "weights quantised by 'gptq' are not known here"),
        ({"quantization_config": None}, r"is of type U8, which is not known here \(16 such in all\)"),
    ],
)
def test_a_way_of_coding_that_is_not_known_is_refused(gpt_oss: Path, tmp_path: Path, change: dict, says: str) -> None:
    config = json.loads((gpt_oss / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    (tmp_path / "model.safetensors").symlink_to(gpt_oss / "model.safetensors")
    with pytest.raises(RunRefused, match=says):
        HuggingFaceWeights(tmp_path)


def test_scales_that_are_missing_are_named(gpt_oss: Path, tmp_path: Path) -> None:
    tensors = load_file(gpt_oss / "model.safetensors")
    del tensors["model.layers.2.mlp.experts.down_proj_scales"]
    (tmp_path / "config.json").write_bytes((gpt_oss / "config.json").read_bytes())
    rewrite(tmp_path, tensors)
    with pytest.raises(RunRefused, match=r"lacks model\.layers\.2\.mlp\.experts\.down_proj_scales"):
        HuggingFaceWeights(tmp_path)
