"""DeepSeek-V3 and models of its shape (Moonlight, Kimi-K2): latent attention, shared experts, a router with a bias."""

from __future__ import annotations

from typing import Any

from trainwright.recipes.blocks import expert_blocks
from trainwright.recipes.config.model import ModelConfig
from trainwright.runner.errors import RunRefused
from trainwright.runner.huggingface.family import SIZES, SWIGLU_DECODER, Family
from trainwright.runner.huggingface.fields import Fields
from trainwright.runner.huggingface.parts import copies_in_further_predictions, decoder
from trainwright.runner.huggingface.rope import read_latent_rope, write_latent_rope

EXPERTS = {
    "n_routed_experts": "num_moe_experts",
    "num_experts_per_tok": "moe_router_topk",
    "moe_intermediate_size": "moe_ffn_hidden_size",
}
ROUTER = {
    "moe_router_score_function": "sigmoid",
    "moe_router_enable_expert_bias": True,
}
ONLY = {
    "hidden_act": ("silu",),
    "attention_dropout": (0.0,),
    "norm_topk_prob": (True,),
}


def read_experts(fields: Fields) -> dict[str, Any]:
    """Dense blocks first, shared experts, groups of experts, and further predictions if there are weights of them."""
    blocks, dense = fields.take("num_hidden_layers"), fields.take("first_k_dense_replace", 0)
    shared, groups, scaling = fields.take("n_shared_experts", 0), fields.take("n_group", 1), "routed_scaling_factor"
    chosen, allowed = fields.take("num_experts_per_tok"), fields.take("topk_group", 1)
    if groups > 1 and chosen != 2 * allowed:
        # Published models add a group's two best, Megatron Core its topk / group_topk best.
        raise RunRefused(
            f"{fields.where}: num_experts_per_tok={chosen} and topk_group={allowed}: with groups of experts Megatron "
            "Core computes the same only for twice as many experts as groups"
        )
    depths = fields.take("num_nextn_predict_layers", 0)
    if depths and not any(name.startswith(f"model.layers.{blocks}.") for name in fields.tensors):
        fields.remarks.append(f"num_nextn_predict_layers={depths}, and no weights of them: they are left out")
        depths = 0
    return {
        "moe_layer_freq": [int(block >= dense) for block in range(blocks)] if dense else 1,
        "moe_shared_expert_intermediate_size": shared * fields.take("moe_intermediate_size") or None,
        "moe_router_num_groups": groups if groups > 1 else None,
        "moe_router_group_topk": allowed if groups > 1 else None,
        "moe_router_topk_scaling_factor": float(fields.take(scaling, 1.0)),
        "mtp_num_layers": depths or None,
    }


def write_experts(model: ModelConfig) -> dict[str, Any]:
    """The same back.

    Raises:
        RunRefused: there is no word for it.
    """
    mixed, width = expert_blocks(model), model.moe_ffn_hidden_size or 0
    dense = mixed.index(True) if True in mixed else len(mixed)
    if not all(mixed[dense:]):
        raise RunRefused("model.moe_layer_freq: dense blocks have to come first")
    shared = model.moe_shared_expert_intermediate_size or 0
    if not width or shared % width:
        raise RunRefused("model.moe_shared_expert_intermediate_size has to be a multiple of an expert's width")
    return {
        "first_k_dense_replace": dense,
        "n_shared_experts": shared // width,
        "n_group": model.moe_router_num_groups or 1,
        "topk_group": model.moe_router_group_topk or 1,
        "routed_scaling_factor": model.moe_router_topk_scaling_factor or 1.0,
        "num_nextn_predict_layers": model.mtp_num_layers or 0,
    }


def read(fields: Fields) -> dict[str, Any]:
    """Rotary embedding, ranks of the latents, experts."""
    return {**read_latent_rope(fields), "q_lora_rank": fields.take("q_lora_rank", None), **read_experts(fields)}


def write(model: ModelConfig) -> dict[str, Any]:
    """The same back."""
    return {
        **write_latent_rope(model),
        "q_lora_rank": model.q_lora_rank,
        "num_key_value_heads": model.num_attention_heads,
        **write_experts(model),
    }


FAMILY = Family(
    model_type="deepseek_v3",
    further_types=("kimi_k2",),
    architecture="DeepseekV3ForCausalLM",
    rules=decoder,
    copies=copies_in_further_predictions,
    names={
        **{name: mine for name, mine in SIZES.items() if name not in ("num_key_value_heads", "head_dim")},
        **EXPERTS,
        "kv_lora_rank": "kv_lora_rank",
        "qk_nope_head_dim": "qk_head_dim",
        "qk_rope_head_dim": "qk_pos_emb_head_dim",
        "v_head_dim": "v_head_dim",
    },
    ours={**SWIGLU_DECODER, **ROUTER, "multi_latent_attention": True, "qk_layernorm": True},
    theirs={
        **ONLY,
        "attention_bias": (False,),
        "rope_interleave": (True,),
        "scoring_func": ("sigmoid",),
        "topk_method": ("noaux_tc",),
        "moe_layer_freq": (1,),
        "pretraining_tp": (1,),
    },
    follows=("num_key_value_heads", "head_dim", "qk_head_dim"),
    read=read,
    write=write,
)
