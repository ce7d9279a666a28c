"""GPT-OSS: sinks, sliding windows, YaRN, experts with biases whose units are clamped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainwright.recipes.blocks import windowed_blocks
from trainwright.recipes.config.model import ModelConfig
from trainwright.runner.errors import RunRefused
from trainwright.runner.huggingface.family import SIZES, Family
from trainwright.runner.huggingface.fields import Fields
from trainwright.runner.huggingface.parts import Block, around_blocks, attention, block_at, router, same
from trainwright.runner.huggingface.rope import read_yarn, write_yarn
from trainwright.runner.huggingface.rules import Rule, Slot

if TYPE_CHECKING:
    from torch import Tensor

SLIDING, FULL = "sliding_attention", "full_attention"


def read(fields: Fields) -> dict[str, Any]:
    """YaRN, and which blocks have the window: by default every other one, from the first on."""
    blocks = fields.take("num_hidden_layers")
    kinds = fields.take("layer_types", [FULL if block % 2 else SLIDING for block in range(blocks)])
    if len(kinds) != blocks or not set(kinds) <= {SLIDING, FULL}:
        raise RunRefused(f"{fields.where}: layer_types has to say {SLIDING} or {FULL} for each of {blocks} blocks")
    return {
        **read_yarn(fields, theta=150_000.0),
        "ffn_hidden_size": fields.take("intermediate_size"),
        "activation_func_clamp_value": float(fields.take("swiglu_limit", 7.0)),
        "window_size": [fields.take("sliding_window", 128) - 1, 0],
        "window_attn_skip_freq": [int(kind == SLIDING) for kind in kinds],
    }


def write(model: ModelConfig) -> dict[str, Any]:
    """The same back."""
    return {
        **write_yarn(model),
        "swiglu_limit": model.activation_func_clamp_value,
        "sliding_window": model.window_size[0] + 1 if model.window_size else None,
        "layer_types": [SLIDING if windowed else FULL for windowed in windowed_blocks(model)],
        "experts_per_token": model.moe_router_topk,
    }


def rules(model: ModelConfig) -> list[Rule]:
    """Every weight."""
    found = around_blocks(model)
    for number in range(model.num_layers):
        block = block_at(number)
        sinks = "self_attention.core_attention.softmax_offset"
        found += [
            *attention(model, block),
            same(block.attention + sinks, block.theirs + "self_attn.sinks", model.num_attention_heads),
            *experts(model, block),
        ]
    return found


def halves(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Columns of gate and linear half that take turns, as rows of one after the other."""
    (both,) = tensors
    return [both.T[0::2], both.T[1::2]] if both.dim() == 2 else [both[0::2], both[1::2]]


def transposed(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Rows for columns."""
    return [tensors[0].T]


def experts(model: ModelConfig, block: Block) -> list[Rule]:
    """Theirs are stacked as ours are, with inputs before outputs."""
    ours, theirs = block.feed_forward + "mlp.experts.experts.", block.theirs + "mlp.experts."
    hidden, width, count = model.hidden_size, int(model.moe_ffn_hidden_size or 0), int(model.num_moe_experts or 0)
    found = [
        *router(model, block, "mlp.router"),
        same(block.feed_forward + "mlp.router.bias", block.theirs + "mlp.router.bias", count),
    ]
    for one in range(count):
        found += [
            Rule(
                Slot(ours + "linear_fc1.weight", (2 * width, hidden), one, count),
                (Slot(theirs + "gate_up_proj", (hidden, 2 * width), one, count),),
                halves,
            ),
            Rule(
                Slot(ours + "linear_fc1.bias", (2 * width,), one, count),
                (Slot(theirs + "gate_up_proj_bias", (2 * width,), one, count),),
                halves,
            ),
            Rule(
                Slot(ours + "linear_fc2.weight", (hidden, width), one, count),
                (Slot(theirs + "down_proj", (width, hidden), one, count),),
                transposed,
            ),
            Rule(
                Slot(ours + "linear_fc2.bias", (hidden,), one, count),
                (Slot(theirs + "down_proj_bias", (hidden,), one, count),),
            ),
        ]
    return found


FAMILY = Family(
    model_type="gpt_oss",
    architecture="GptOssForCausalLM",
    rules=rules,
    names={
        **{name: mine for name, mine in SIZES.items() if name != "intermediate_size"},
        "intermediate_size": "moe_ffn_hidden_size",
        "num_local_experts": "num_moe_experts",
        "num_experts_per_tok": "moe_router_topk",
    },
    also={"num_experts_per_tok": "experts_per_token"},
    ours={
        "normalization": "RMSNorm",
        "activation_func": "quick_gelu",
        "gated_linear_unit": True,
        "glu_linear_offset": 1.0,
        "add_bias_linear": True,
        "softmax_type": "learnable",
    },
    theirs={
        "hidden_act": ("silu",),
        "attention_bias": (True,),
        "attention_dropout": (0.0,),
        "swiglu_alpha": (1.702,),
    },
    read=read,
    write=write,
)
