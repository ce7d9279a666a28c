"""GPT-OSS: learnt sinks, windows on every other block, YaRN, clamped SwiGLU with an offset, biases, experts."""

from functools import partial
from typing import Any, NamedTuple

from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.library.finetune import finetune_recipes, peft, sft
from trainwright.recipes.library.pretrain import Pretrain, pretrain_recipes


class Sizes(NamedTuple):
    """A row of the table of architectures."""

    blocks: int
    experts: int


# Published configurations: `openai/gpt-oss-20b` and `openai/gpt-oss-120b`.
SIZES = {
    "gpt_oss_20b": Sizes(24, 32),
    "gpt_oss_120b": Sizes(36, 128),
}

_row = partial(
    Pretrain, cross_entropy="native", dispatcher="alltoall", model={"calculate_per_token_loss": True}, gbs=512
)

# Numbers of Megatron Bridge's recipes of these names.
PRETRAIN = (
    _row("gpt_oss_20b", 16, tp=2, pp=4, ep=4),
    _row("gpt_oss_20b", 16, tp=2, pp=4, ep=4, called="pretrain_fp8_current_scaling", precision="fp8cs"),
    _row("gpt_oss_20b", 16, tp=2, pp=4, ep=4, called="pretrain_mxfp8", precision="fp8mx"),
    _row("gpt_oss_120b", 64, tp=2, pp=4, ep=16),
)


HUB = {"gpt_oss_20b": "openai/gpt-oss-20b", "gpt_oss_120b": "openai/gpt-oss-120b"}
"""Where weights and tokenizer are published."""

_TUNED: dict[str, Any] = {"gbs": 128, "eval_interval": 50, "save_interval": 250, "dispatcher": "alltoall"}
_sft = partial(sft, **_TUNED)
_peft = partial(peft, **_TUNED)
_32K: dict[str, Any] = {
    **{"gbs": 4, "seq": 32_768, "recompute": "selective", "cross_entropy": None},
    "model": {"cp_comm_type": "a2a", "recompute_modules": ["moe_act"], "bias_activation_fusion": False},
}
_MATHS: dict[str, Any] = {"dataset": "openmathinstruct2-thinking", "seq": 4096}

FINETUNE = (
    _sft("gpt_oss_20b", 8, ep=8),
    _sft("gpt_oss_20b", 8, ep=8, called="sft_fp8_current_scaling", precision="fp8cs"),
    _sft("gpt_oss_20b", 8, ep=8, called="sft_mxfp8", mixed={"fp8_param_gather": False}, precision="fp8mx"),
    _sft("gpt_oss_20b", 8, "32k", ep=8, gbs=32, seq=32_768),
    _sft("gpt_oss_20b", 8, "openmathinstruct2_thinking_packed", ep=8, **_MATHS),
    _sft("gpt_oss_120b", 32, pp=4, ep=8),
    _sft("gpt_oss_120b", 48, "32k", tp=2, pp=6, cp=4, ep=4, **_32K),
    _peft("gpt_oss_20b", 1),
    _peft("gpt_oss_20b", 1, called="peft_fp8_current_scaling", precision="fp8cs"),
    _peft("gpt_oss_20b", 1, called="peft_mxfp8", precision="fp8mx"),
    _peft("gpt_oss_120b", 8, ep=8),
)


def gpt_oss(stem: str) -> ModelConfig:
    """The published architecture of a stem."""
    sizes = SIZES[stem]
    return ModelConfig.model_validate(
        {
            "num_layers": sizes.blocks,
            "hidden_size": 2880,
            "ffn_hidden_size": 2880,
            "num_attention_heads": 64,
            "num_query_groups": 8,
            "kv_channels": 64,
            "vocab_size": 201_088,
            "max_position_embeddings": 131_072,
            "normalization": "RMSNorm",
            "layernorm_epsilon": 1e-5,
            "activation_func": "quick_gelu",
            "gated_linear_unit": True,
            "glu_linear_offset": 1.0,
            "activation_func_clamp_value": 7.0,
            "add_bias_linear": True,
            "add_qkv_bias": True,
            "share_embeddings_and_output_weights": False,
            "position_embedding_type": "yarn",
            "rotary_base": 150_000.0,
            "yarn_rotary_scaling_factor": 32.0,
            "yarn_original_max_position_embeddings": 4096,
            "yarn_beta_fast": 32.0,
            "yarn_beta_slow": 1.0,
            "yarn_correction_range_round_to_int": False,
            "softmax_type": "learnable",
            "window_size": [127, 0],
            "window_attn_skip_freq": 2,
            "num_moe_experts": sizes.experts,
            "moe_router_topk": 4,
            "moe_ffn_hidden_size": 2880,
            "moe_layer_freq": 1,
            "moe_router_score_function": "softmax",
            "moe_router_pre_softmax": False,
            "moe_router_load_balancing_type": "none",
            # Published, and without effect where nothing balances.
            "moe_aux_loss_coeff": 0.9,
        }
    )


RECIPES = (*pretrain_recipes(PRETRAIN, gpt_oss), *finetune_recipes(FINETUNE, gpt_oss, HUB))
