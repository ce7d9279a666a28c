"""What is trained and what is not, what an adapter computes, and what it costs."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.runner.family_reference import MODELS
from tests.runner.small_models import LLAMA, VOCABULARY, configuration, positions, start_groups, tokens

from trainwright.runner.adapters.linear import split_of
from trainwright.runner.adapters.rows import Rows
from trainwright.runner.errors import RunRefused
from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed

CASES: dict[str, dict[str, Any]] = MODELS | {
    "llama": LLAMA,
    "further predictions": MODELS["deepseek_v3"] | {"mtp_num_layers": 1},
}
PEFT = {"target_modules": ["*"], "dim": 4, "alpha": 8}


@given(st.dictionaries(st.sampled_from("abc"), st.integers(1, 4), min_size=1), st.integers(1, 3), st.integers(1, 2))
def test_rows_that_are_taken_apart_come_together_again(widths, groups, batch):
    rows = Rows(widths, groups)
    x = torch.arange(batch * groups * sum(widths.values())).view(batch, -1)
    parts = rows.split(x)
    assert {name: part.size(-1) for name, part in parts.items()} == {name: groups * one for name, one in widths.items()}
    assert torch.equal(rows.join(parts), x)


def built(model: dict[str, Any], **peft: Any) -> tuple[Any, Any]:
    """A chunk with adapters, and its configuration. On one rank."""
    from trainwright.runner.adapters.attach import attach
    from trainwright.runner.models import build_model

    config = configuration(model, peft=PEFT | peft)
    start_groups(config)
    chunks = build_model(config, vocab_size=VOCABULARY)
    attach(chunks, config, config.peft)
    return chunks[0], config


def trained() -> dict[str, dict[str, Any]]:
    """By case: what of a model takes gradients, and what the optimizer and the gradients' buffers hold."""
    return {name: _trained(model) for name, model in CASES.items()}


def _trained(model: dict[str, Any]) -> dict[str, Any]:
    from megatron.core import parallel_state

    from trainwright.recipes.adapters import trainable_parameters
    from trainwright.runner.build import wrap_for_data_parallelism
    from trainwright.runner.optim import build_optimizer

    chunk, config = built(model, scheme="dora")
    names = [name for name, parameter in chunk.named_parameters() if parameter.requires_grad]
    (wrapped,) = wrap_for_data_parallelism([chunk], config)
    optimizer = build_optimizer(config, [wrapped])
    parts = getattr(optimizer, "chained_optimizers", [optimizer])
    found = {
        "names": names,
        "trained": sum(parameter.numel() for parameter in chunk.parameters() if parameter.requires_grad),
        "arithmetic": trainable_parameters(config.model, config.peft),
        "gradients": sum(buffer.numel for buffer in (*wrapped.buffers, *wrapped.expert_parallel_buffers)),
        "optimizer": sum(parameter.numel() for part in parts for parameter in part.get_parameters()),
        "biases that move": sum(
            not module.frozen_expert_bias for module in chunk.modules() if hasattr(module, "expert_bias")
        ),
    }
    parallel_state.destroy_model_parallel()
    return found


@pytest.fixture(scope="module")
def found():
    return run_ranks(trained, 1)[0]


@pytest.mark.parametrize("case", CASES)
def test_adapters_are_trained_and_nothing_else_and_as_many_as_arithmetic_says(found, case):
    one = found[case]
    assert all(".adapter." in name for name in one["names"])
    assert one["trained"] == one["gradients"] == one["optimizer"] == one["arithmetic"] > 0
    assert one["biases that move"] == 0


def products() -> dict[str, tuple[float, float]]:
    """By case, of a forward and a backward pass: operations that torch counts, and ours."""
    return {name: _products(CASES[name]) for name in ("llama", "moonlight", "qwen3_moe")}


def _products(model: dict[str, Any]) -> tuple[float, float]:
    from megatron.core import parallel_state
    from torch.utils.flop_counter import FlopCounterMode

    from trainwright.recipes.blocks import expert_blocks
    from trainwright.recipes.flops import floating_point_operations

    chunk, config = built(model, target_modules=["*proj", "linear_fc2"])
    ids = tokens()
    with FlopCounterMode(display=False) as counter:
        chunk(ids, positions(ids), None, labels=ids).sum().backward()
    parallel_state.destroy_model_parallel()
    counted = sum(count for kind, count in counter.get_flop_counts()["Global"].items() if "attention" not in str(kind))
    # Megatron Core's router computes the gradient of its weight though nobody asks for it.
    routers = sum(expert_blocks(config.model)) * config.model.hidden_size * (config.model.num_moe_experts or 0)
    return counted, (floating_point_operations(config).per_position + 2 * routers) * ids.numel()


def test_operations_are_those_of_all_matrix_products():
    for counted, ours in run_ranks(products, 1)[0].values():
        assert ours == pytest.approx(counted, rel=1e-6)


def outputs() -> dict[str, float]:
    """By scheme and layer, how far a layer with adapters is from the formula with whole matrices."""
    from megatron.core import parallel_state

    model = CASES["llama"] | {"add_bias_linear": True, "add_qkv_bias": True}
    found = {}
    for scheme in ("lora", "dora"):
        for targets in (["linear_qkv"], ["linear_q", "linear_v"], ["linear_fc1_up"], ["linear_proj"]):
            chunk, _ = built(model, scheme=scheme, target_modules=targets)
            found[f"{scheme} {targets}"] = _off(chunk)
            parallel_state.destroy_model_parallel()
    return found


def _off(chunk: Any) -> float:
    from trainwright.runner.adapters.attach import adapters_of

    layer, adapter = next(adapters_of([chunk]))
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(5, 2, layer.weight.size(1), generator=draw)
    with torch.no_grad():
        torch.nn.init.normal_(layer.bias, generator=draw)
        for parameter in adapter.parameters():
            torch.nn.init.normal_(parameter, generator=draw)
        weights = adapter.rows.split(layer.weight.t())
        for name in adapter.names:
            part = adapter.part(name)
            whole = weights[name].t() + 2 * part.lora_b @ part.lora_a
            if part.magnitude is not None:
                whole = part.magnitude[:, None] * whole / whole.norm(dim=1, keepdim=True)
            weights[name] = whole.t()
        bias = layer.bias if not layer.skip_bias_add else 0
        wanted = x @ adapter.rows.join(weights) + bias
        return ((layer(x)[0] - wanted).abs().max() / wanted.abs().max()).item()


def test_a_layer_computes_what_the_merged_matrix_does():
    assert max(run_ranks(outputs, 1)[0].values()) < 1e-5


class TELayerNormColumnParallelLinear(torch.nn.Module):
    """Stands for Transformer Engine's layer of this name, which there is on a GPU alone: a norm, then a product."""

    def __init__(self, normalization: str, zero_centered_gamma: bool) -> None:
        super().__init__()
        self.normalization, self.zero_centered_gamma, self.eps = normalization, zero_centered_gamma, 1e-5
        self.weight, self.bias = torch.nn.Parameter(torch.randn(6, 8)), torch.nn.Parameter(torch.randn(6))
        self.layer_norm_weight = torch.nn.Parameter(torch.randn(8))
        self.layer_norm_bias = torch.nn.Parameter(torch.randn(8)) if normalization == "LayerNorm" else None
        self.parallel_mode, self.sequence_parallel, self.te_return_bias = "column", False, False
        self._tp_group = torch.distributed.group.WORLD

    def normed(self, x: torch.Tensor) -> torch.Tensor:
        centered = x - x.mean(-1, keepdim=True) if self.normalization == "LayerNorm" else x
        unit = centered / (centered.square().mean(-1, keepdim=True) + self.eps).sqrt()
        scaled = unit * (self.layer_norm_weight + (1 if self.zero_centered_gamma else 0))
        return scaled if self.layer_norm_bias is None else scaled + self.layer_norm_bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.normed(x) @ self.weight.t() + self.bias


def outputs_behind_a_norm() -> float:
    """How far a layer with a norm in it is from the formula."""
    from trainwright.recipes.config.peft import PeftConfig
    from trainwright.runner.adapters.adapter import Adapter

    torch.distributed.init_process_group("gloo")
    worst = 0.0
    for normalization in ("LayerNorm", "RMSNorm"):
        for zero_centered in (False, True):
            layer = TELayerNormColumnParallelLinear(normalization, zero_centered)
            adapter = Adapter(layer, Rows({"linear_fc1": 6}), ("linear_fc1",), PeftConfig(dim=2, alpha=4))
            for parameter in adapter.parameters():
                torch.nn.init.normal_(parameter)
            x, part = torch.randn(5, 8), adapter.part("linear_fc1")
            wanted = layer.normed(x) @ (layer.weight + 2 * part.lora_b @ part.lora_a).t() + layer.bias
            worst = max(worst, (adapter(layer, x, layer(x)) - wanted).abs().max().item())
    return worst


def test_an_adapter_of_a_layer_with_a_norm_sees_what_the_norm_gives():
    assert run_ranks(outputs_behind_a_norm, 1)[0] < 1e-4


class TEGroupedLinear(torch.nn.Module):
    """Stands for Transformer Engine's layer of all experts."""


def test_a_layer_of_all_experts_is_refused_with_the_word_that_has_them_one_by_one():
    with pytest.raises(RunRefused, match=r"model\.moe_grouped_gemm=false"):
        split_of(TEGroupedLinear())
