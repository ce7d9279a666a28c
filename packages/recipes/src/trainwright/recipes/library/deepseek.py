"""DeepSeek-V3, Moonlight and Kimi-K2: latent attention, dense blocks first, shared experts, sigmoid router."""

from functools import partial
from typing import Any

from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.library.finetune import finetune_recipes, peft, sft
from trainwright.recipes.library.pretrain import HUNDRED, Pretrain, pretrain_recipes
from trainwright.recipes.library.row import BF16, CHUNKED_ENVIRONMENT, HYBRIDEP_ENVIRONMENT

STEMS = ("deepseek_v3", "moonlight_16b", "kimi_k2")

# Published configurations: `deepseek-ai/DeepSeek-V3`, `moonshotai/Moonlight-16B-A3B`, `moonshotai/Kimi-K2-Instruct`.
# A column a stem, as in STEMS; null is the field's default.
ARCHITECTURES: dict[str, tuple[Any, Any, Any]] = {
    "num_layers": (61, 27, 61),
    "hidden_size": (7168, 2048, 7168),
    "ffn_hidden_size": (18_432, 11_264, 18_432),
    "num_attention_heads": (128, 16, 64),
    "vocab_size": (129_280, 163_840, 163_840),
    "max_position_embeddings": (163_840, 8192, 131_072),
    "layernorm_epsilon": (1e-6, 1e-5, 1e-6),
    "q_lora_rank": (1536, None, 1536),
    "kv_lora_rank": (512, 512, 512),
    "qk_head_dim": (128, 128, 128),
    "qk_pos_emb_head_dim": (64, 64, 64),
    "v_head_dim": (128, 128, 128),
    "rotary_base": (10_000.0, 50_000.0, 50_000.0),
    "rope_type": ("yarn", "rope", "yarn"),
    "rotary_scaling_factor": (40.0, None, 32.0),
    "original_max_position_embeddings": (4096, None, 4096),
    "beta_fast": (32.0, None, 1.0),
    "beta_slow": (1.0, None, 1.0),
    "mscale": (1.0, None, 1.0),
    "mscale_all_dim": (1.0, None, 1.0),
    "num_moe_experts": (256, 64, 384),
    "moe_router_topk": (8, 6, 8),
    "moe_ffn_hidden_size": (2048, 1408, 2048),
    "moe_shared_expert_intermediate_size": (2048, 2816, 2048),
    "moe_layer_freq": ([0] * 3 + [1] * 58, [0] + [1] * 26, [0] + [1] * 60),
    "moe_router_num_groups": (8, None, None),
    "moe_router_group_topk": (4, None, None),
    "moe_router_topk_scaling_factor": (2.5, 2.446, 2.827),
    "moe_aux_loss_coeff": (1e-4, 1e-3, 1e-3),
    "mtp_num_layers": (1, None, None),
}

_V3: dict[str, Any] = {"init_method_std": 0.006, "mtp_loss_scaling_factor": 0.1, "moe_hybridep_num_sms": 16}
_BF16: dict[str, Any] = {"states": "bfloat16", **BF16}
_OVERLAPPED: dict[str, Any] = {"dispatcher": "alltoall", "shared_overlap": True, "recompute": "selective"}

_STAGES = {8: "Et*8|" + "t*8|" * 6, 16: "Et*4|" + "t*4|" * 14}
"""All stages but the last."""

_row = partial(Pretrain, save_interval=2000)
_v3 = partial(_row, "deepseek_v3", dispatcher="hybridep", model=_V3, env=HYBRIDEP_ENVIRONMENT, **_BF16)
_moonlight = partial(_row, "moonlight_16b", tokenizer=163_840, **_BF16)
_kimi = partial(_row, "kimi_k2", tokenizer=163_840, optimizer="dist_muon", beta2=0.999, **_OVERLAPPED)

# Numbers of Megatron Bridge's recipes of these names.
PRETRAIN = (
    _v3(256, "32nodes", tp=2, pp=8, ep=32, gbs=4096, layout=_STAGES[8] + "t*5mL", recompute="full", has_alias=False),
    _v3(1024, tp=2, pp=16, ep=64, gbs=4096, layout=_STAGES[16] + "tmL"),
    _moonlight(8, tp=2, ep=8, gbs=2048, iters=500_000, decay=500_000, has_alias=False, **_OVERLAPPED),
    _moonlight(16, ep=8, mbs=2, dispatcher="hybridep", router_fusion=True, env=CHUNKED_ENVIRONMENT, **HUNDRED),
    _kimi(512, tp=2, pp=16, ep=32, gbs=4096, decay=1_000_000, layout=_STAGES[16] + "tL"),
)


HUB = {"moonlight_16b": "moonshotai/Moonlight-16B-A3B"}
"""Where weights and tokenizer are published."""

_SHORT: dict[str, Any] = {
    **{"iters": 100, "warmup": 10, "decay": 100, "beta2": 0.95},
    **{"eval_interval": 50, "eval_iters": 10, "save_interval": 100},
}
_8K: dict[str, Any] = {
    **{"seq": 8192, "iters": 20, "warmup": 2, "decay": 20, "eval_interval": None, "eval_iters": 0},
    **{"lr": 1e-6, "eps": 1e-5, "cross_entropy": None},
}
_TUNED: dict[str, Any] = {"etp": 1, "overlap": True, "cross_entropy": "te"}
_sft = partial(sft, "moonlight_16b", data_seed=1234, **_TUNED)
_peft = partial(peft, "moonlight_16b", dispatcher="alltoall", shared_overlap=True, **_TUNED)
_LATENT = ("linear_q_proj", "linear_kv_down_proj", "linear_kv_up_proj", "linear_proj")

_ADAPTED: dict[str, Any] = {
    **{"gbs": 128, "seq": 4096, "decay": 1000, "eval_interval": 50, "eps": 1e-5, "recompute": "selective"},
    **{"targets": ("linear_proj", "linear_fc1", "linear_fc2"), "has_alias": False},
}

# The public adapters of two GPUs name linear_qkv as well, which latent attention does not have.
FINETUNE = (
    _sft(8, tp=4, pp=2, ep=4, gbs=32, layout="Et*14|t*13L", has_alias=False, **_OVERLAPPED, **_SHORT),
    _sft(8, "8k", tp=2, cp=2, ep=8, gbs=128, **{**_OVERLAPPED, **_BF16, **_8K}),
    _sft(
        *(8, "tp1"),
        **{"called": "sft", "ep": 8, "seq": 8192, "dispatcher": "hybridep", "router_fusion": True, **_BF16, **_SHORT},
        env=CHUNKED_ENVIRONMENT,
    ),
    _peft(2, ep=2, **{**_ADAPTED, **_BF16}),
    _peft(4, ep=4, gbs=32, dim=8, alpha=16, targets=_LATENT, router_fusion=True, data_seed=1234, **_SHORT),
)


def deepseek(stem: str) -> ModelConfig:
    """The published architecture of a stem."""
    column = STEMS.index(stem)
    of_stem = {name: values[column] for name, values in ARCHITECTURES.items()}
    return ModelConfig.model_validate(
        {
            **{name: value for name, value in of_stem.items() if value is not None},
            "normalization": "RMSNorm",
            "activation_func": "silu",
            "gated_linear_unit": True,
            "add_bias_linear": False,
            "add_qkv_bias": False,
            "qk_layernorm": True,
            "share_embeddings_and_output_weights": False,
            "multi_latent_attention": True,
            "position_embedding_type": "rope",
            "moe_router_score_function": "sigmoid",
            "moe_router_pre_softmax": True,
            "moe_router_enable_expert_bias": True,
            "moe_router_bias_update_rate": 1e-3,
            "moe_router_dtype": "fp32",
            "moe_router_load_balancing_type": "seq_aux_loss",
        }
    )


RECIPES = (*pretrain_recipes(PRETRAIN, deepseek), *finetune_recipes(FINETUNE, deepseek, HUB))
