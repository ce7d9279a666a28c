"""Qwen3 with experts: attention of Qwen3, softmax routing, no shared experts."""

from __future__ import annotations

from typing import Any

from trainwright.recipes.blocks import expert_blocks
from trainwright.recipes.config.model import ModelConfig
from trainwright.runner.errors import RunRefused
from trainwright.runner.huggingface.family import SIZES, SWIGLU_DECODER, Family
from trainwright.runner.huggingface.fields import Fields
from trainwright.runner.huggingface.parts import decoder
from trainwright.runner.huggingface.rope import read_rope, write_rope


def read(fields: Fields) -> dict[str, Any]:
    """Which blocks have experts, and the order of softmax and choice."""
    blocks, step = fields.take("num_hidden_layers"), fields.take("decoder_sparse_step", 1)
    dense = fields.take("mlp_only_layers", [])
    if not isinstance(step, int) or step < 1:
        raise RunRefused(f"{fields.where}: decoder_sparse_step={step!r} has to be at least 1")
    mixed = [int(block not in dense and (block + 1) % step == 0) for block in range(blocks)]
    return {
        **read_rope(fields),
        "moe_layer_freq": 1 if all(mixed) else mixed,
        "moe_router_pre_softmax": not fields.take("norm_topk_prob", False),
    }


def write(model: ModelConfig) -> dict[str, Any]:
    """The same back."""
    return {
        **write_rope(model),
        "decoder_sparse_step": 1,
        "mlp_only_layers": [block for block, mixed in enumerate(expert_blocks(model)) if not mixed],
        "norm_topk_prob": not model.moe_router_pre_softmax,
    }


FAMILY = Family(
    model_type="qwen3_moe",
    architecture="Qwen3MoeForCausalLM",
    rules=decoder,
    names={
        **SIZES,
        "num_experts": "num_moe_experts",
        "num_experts_per_tok": "moe_router_topk",
        "moe_intermediate_size": "moe_ffn_hidden_size",
    },
    also={"num_experts": "num_local_experts"},
    ours={**SWIGLU_DECODER, "qk_layernorm": True},
    theirs={
        "hidden_act": ("silu",),
        "attention_bias": (False,),
        "use_sliding_window": (False,),
        "attention_dropout": (0.0,),
    },
    read=read,
    write=write,
)
