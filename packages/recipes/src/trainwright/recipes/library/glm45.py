"""GLM-4.5: half of each head rotated, biases of queries, keys and values, dense blocks first, one shared expert."""

from functools import partial
from typing import Any, NamedTuple

from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.library.finetune import finetune_recipes, peft, sft
from trainwright.recipes.library.pretrain import Pretrain, pretrain_recipes


class Sizes(NamedTuple):
    """A row of the table of architectures."""

    blocks: int
    dense: int
    """Blocks without experts, the first ones."""
    hidden: int
    ffn: int
    experts: int
    expert_ffn: int
    """Also the shared expert's width."""
    scaling: float
    """Of the chosen experts' weights."""
    qk_norm: bool


# Published configurations: `zai-org/GLM-4.5` and `zai-org/GLM-4.5-Air`.
SIZES = {
    "glm45_355b": Sizes(92, 3, 5120, 12_288, experts=160, expert_ffn=1536, scaling=2.5, qk_norm=True),
    "glm45_air_106b": Sizes(46, 1, 4096, 10_944, experts=128, expert_ffn=1408, scaling=1.0, qk_norm=False),
}

_row = partial(
    Pretrain,
    gbs=2048,
    lr=1e-4,
    min_lr=1e-5,
    dispatcher="alltoall",
    shared_overlap=True,
    recompute="selective",
    cross_entropy="native",
    model={"mtp_loss_scaling_factor": 0.3},
)

# Numbers of Megatron Bridge's recipes of these names.
PRETRAIN = (
    _row("glm45_355b", 128, tp=2, pp=8, ep=16, ends=10),
    _row("glm45_air_106b", 32, tp=1, pp=4, ep=8, ends=11),
)


HUB = {"glm45_355b": "zai-org/GLM-4.5", "glm45_air_106b": "zai-org/GLM-4.5-Air"}
"""Where weights and tokenizer are published."""

_TUNED: dict[str, Any] = {
    **{"gbs": 128, "eval_interval": 50, "beta2": 0.95, "dispatcher": "alltoall", "shared_overlap": True},
    **{"packed": False, "model": {"mtp_loss_scaling_factor": 0.3}},
}
_sft = partial(sft, **_TUNED)
_peft = partial(peft, **_TUNED)

# An expert of the public recipes is split as all else is; for 355b there are too few ranks for that.
FINETUNE = (
    _sft("glm45_355b", 128, tp=2, pp=8, ep=16, etp=1, ends=10),
    _sft("glm45_air_106b", 32, pp=4, ep=8, ends=11),
    _peft("glm45_355b", 16, tp=2, pp=4, ep=4, etp=1),
    _peft("glm45_air_106b", 8, pp=2, ep=4),
)


def glm45(stem: str) -> ModelConfig:
    """The published architecture of a stem."""
    sizes = SIZES[stem]
    return ModelConfig.model_validate(
        {
            "num_layers": sizes.blocks,
            "hidden_size": sizes.hidden,
            "ffn_hidden_size": sizes.ffn,
            "num_attention_heads": 96,
            "num_query_groups": 8,
            "kv_channels": 128,
            "vocab_size": 151_552,
            "max_position_embeddings": 131_072,
            "normalization": "RMSNorm",
            "layernorm_epsilon": 1e-5,
            "activation_func": "silu",
            "gated_linear_unit": True,
            "add_bias_linear": False,
            "add_qkv_bias": True,
            "qk_layernorm": sizes.qk_norm,
            "share_embeddings_and_output_weights": False,
            "position_embedding_type": "rope",
            "rotary_base": 1_000_000.0,
            "rotary_percent": 0.5,
            "num_moe_experts": sizes.experts,
            "moe_router_topk": 8,
            "moe_ffn_hidden_size": sizes.expert_ffn,
            "moe_shared_expert_intermediate_size": sizes.expert_ffn,
            "moe_layer_freq": [0] * sizes.dense + [1] * (sizes.blocks - sizes.dense),
            "moe_router_score_function": "sigmoid",
            "moe_router_pre_softmax": False,
            "moe_router_topk_scaling_factor": sizes.scaling,
            "moe_router_enable_expert_bias": True,
            # The bias stays as it was published.
            "moe_router_bias_update_rate": 0.0,
            "moe_router_dtype": "fp32",
            "moe_router_load_balancing_type": "seq_aux_loss",
            "moe_aux_loss_coeff": 1e-3,
            "mtp_num_layers": 1,
        }
    )


RECIPES = (*pretrain_recipes(PRETRAIN, glm45), *finetune_recipes(FINETUNE, glm45, HUB))
