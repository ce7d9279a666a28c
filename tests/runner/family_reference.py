"""Shrunk models of the families in transformers and here, with the same weights on one rank."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from tests.runner.small_models import VOCABULARY, configuration, positions, start_groups, tokens
from torch import Tensor

Weights = Mapping[str, Tensor]

COMMON: dict[str, Any] = {
    "num_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 8,
    "num_query_groups": 2,
    "kv_channels": 16,
    "ffn_hidden_size": 96,
    "vocab_size": VOCABULARY,
    "seq_length": 64,
    "max_position_embeddings": 64,
    "normalization": "RMSNorm",
    "activation_func": "silu",
    "gated_linear_unit": True,
    "add_bias_linear": False,
    "share_embeddings_and_output_weights": False,
    "position_embedding_type": "rope",
    "rotary_base": 10_000.0,
    "num_moe_experts": 8,
    "moe_router_topk": 2,
    "moe_ffn_hidden_size": 32,
    "moe_aux_loss_coeff": 0.0,
}

LATENT: dict[str, Any] = {
    "multi_latent_attention": True,
    "kv_channels": None,
    "num_query_groups": 8,
    "kv_lora_rank": 20,
    "qk_head_dim": 16,
    "qk_pos_emb_head_dim": 8,
    "v_head_dim": 12,
    "qk_layernorm": True,
}

SIGMOID: dict[str, Any] = {
    "moe_router_topk": 4,
    "moe_router_score_function": "sigmoid",
    "moe_router_enable_expert_bias": True,
    "moe_router_topk_scaling_factor": 2.5,
    "moe_router_dtype": "fp32",
    "moe_shared_expert_intermediate_size": 32,
}

MODELS: dict[str, dict[str, Any]] = {
    "qwen3_moe": COMMON | {"qk_layernorm": True, "moe_layer_freq": [1, 1, 0, 1]},
    "gpt_oss": COMMON
    | {
        "activation_func": "quick_gelu",
        "glu_linear_offset": 1.0,
        "activation_func_clamp_value": 0.5,
        "add_bias_linear": True,
        "add_qkv_bias": True,
        "position_embedding_type": "yarn",
        "yarn_rotary_scaling_factor": 4.0,
        "yarn_original_max_position_embeddings": 64,
        "yarn_beta_fast": 4.0,
        "yarn_correction_range_round_to_int": False,
        "softmax_type": "learnable",
        "window_size": [7, 0],
        "window_attn_skip_freq": 2,
        "expert_tensor_parallel_size": 1,
    },
    "deepseek_v3": COMMON
    | LATENT
    | SIGMOID
    | {
        "q_lora_rank": 24,
        "rope_type": "yarn",
        "rotary_scaling_factor": 4.0,
        "original_max_position_embeddings": 64,
        "beta_fast": 4.0,
        "mscale": 1.0,
        "mscale_all_dim": 0.7,
        "moe_layer_freq": [0, 1, 1, 1],
        "moe_router_num_groups": 4,
        "moe_router_group_topk": 2,
    },
    "moonlight": COMMON
    | LATENT
    | SIGMOID
    | {
        "moe_layer_freq": [0, 1, 1, 1],
        "moe_router_num_groups": 1,
        "moe_router_group_topk": 1,
    },
    "glm45": COMMON
    | SIGMOID
    | {
        "qk_layernorm": True,
        "add_qkv_bias": True,
        "rotary_percent": 0.5,
        "moe_layer_freq": [0, 0, 1, 1],
    },
}


def reference(family: str) -> Any:
    """A random causal language model of transformers, float32, with every kind of parameter away from its default."""
    torch.manual_seed(0)
    model = REFERENCES[family]()
    for name, parameter in model.named_parameters():
        if "norm" in name:  # all ones would hide a norm in the wrong place
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
        elif name.endswith(("bias", "sinks")):  # and zeros a bias
            torch.nn.init.normal_(parameter, std=0.3)
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            torch.nn.init.normal_(buffer, std=0.3)
    return model.eval()


SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "initializer_range": 0.1,
    "tie_word_embeddings": False,
}


def qwen3_moe() -> Any:
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    return Qwen3MoeForCausalLM(
        Qwen3MoeConfig(
            **SIZES,
            moe_intermediate_size=32,
            num_experts=8,
            num_experts_per_tok=2,
            norm_topk_prob=True,
            mlp_only_layers=[2],
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        )
    )


def gpt_oss() -> Any:
    from transformers import GptOssConfig, GptOssForCausalLM

    return GptOssForCausalLM(
        GptOssConfig(
            **SIZES | {"intermediate_size": 32},
            num_local_experts=8,
            num_experts_per_tok=2,
            sliding_window=8,
            layer_types=["sliding_attention", "full_attention"] * 2,
            swiglu_limit=0.5,
            rope_parameters={
                "rope_type": "yarn",
                "rope_theta": 10_000.0,
                "factor": 4.0,
                "beta_fast": 4.0,
                "beta_slow": 1.0,
                "truncate": False,
                "original_max_position_embeddings": 64,
            },
            attn_implementation="eager",
        )
    )


ROUTED: dict[str, Any] = {
    "moe_intermediate_size": 32,
    "n_routed_experts": 8,
    "num_experts_per_tok": 4,
    "routed_scaling_factor": 2.5,
    "norm_topk_prob": True,
    "n_shared_experts": 1,
    "num_mtp_layers": 0,
}


def deepseek_v3(**changes: Any) -> Any:
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

    latent = {"kv_lora_rank": 20, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 12}
    yarn = {
        "rope_type": "yarn",
        "rope_theta": 10_000.0,
        "factor": 4.0,
        "beta_fast": 4.0,
        "beta_slow": 1.0,
        "mscale": 1.0,
        "mscale_all_dim": 0.7,
        "original_max_position_embeddings": 64,
    }
    sizes = {name: value for name, value in SIZES.items() if name != "head_dim"} | {"num_key_value_heads": 8}
    routed = ROUTED | {"n_group": 4, "topk_group": 2, "first_k_dense_replace": 1}
    config = sizes | latent | routed | {"q_lora_rank": 24, "rope_parameters": yarn} | changes
    return DeepseekV3ForCausalLM(DeepseekV3Config(**config))


def moonlight() -> Any:
    plain = {"rope_type": "default", "rope_theta": 10_000.0}
    return deepseek_v3(q_lora_rank=None, n_group=1, topk_group=1, rope_parameters=plain)


def glm45() -> Any:
    from transformers import Glm4MoeConfig, Glm4MoeForCausalLM

    rotary = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5}
    return Glm4MoeForCausalLM(
        Glm4MoeConfig(
            **SIZES | ROUTED,
            first_k_dense_replace=2,
            use_qk_norm=True,
            attention_bias=True,
            rope_parameters=rotary,
        )
    )


REFERENCES: dict[str, Callable[[], Any]] = {
    "qwen3_moe": qwen3_moe,
    "gpt_oss": gpt_oss,
    "deepseek_v3": deepseek_v3,
    "moonlight": moonlight,
    "glm45": glm45,
}


def by_group(tensors: list[Tensor], groups: int, channels: int) -> Tensor:
    """Query, key and value rows ordered by key/value group."""
    return torch.cat([x.reshape(groups, -1, channels, *x.shape[1:]) for x in tensors], dim=1).flatten(0, 2)


def our_weights(family: str, model: dict[str, Any], theirs: Weights) -> dict[str, Tensor]:
    """Every parameter and buffer of ours, by name, from the state dict of transformers."""
    ours = {
        "embedding.word_embeddings.weight": theirs["model.embed_tokens.weight"],
        "decoder.final_norm.weight": theirs["model.norm.weight"],
        "output_layer.weight": theirs["lm_head.weight"],
    }
    for block in range(model["num_layers"]):
        source = _inside(theirs, f"model.layers.{block}.")
        attention, feed_forward = f"decoder.layers.{2 * block}.", f"decoder.layers.{2 * block + 1}."
        ours |= {f"{attention}{name}": tensor for name, tensor in _attention(model, source).items()}
        ours |= {f"{feed_forward}{name}": tensor for name, tensor in _feed_forward(family, source).items()}
    return ours


def _inside(tensors: Weights, prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _attention(model: dict[str, Any], theirs: Weights) -> dict[str, Tensor]:
    ours = {
        "input_layernorm.weight": theirs["input_layernorm.weight"],
        "self_attention.linear_proj.weight": theirs["self_attn.o_proj.weight"],
    }
    for kind in ("weight", "bias"):
        if f"self_attn.k_proj.{kind}" in theirs:
            parts = [theirs[f"self_attn.{part}_proj.{kind}"] for part in "qkv"]
            ours[f"self_attention.linear_qkv.{kind}"] = by_group(parts, model["num_query_groups"], model["kv_channels"])
    for name, source in (
        ("linear_proj.bias", "o_proj.bias"),
        ("q_layernorm.weight", "q_norm.weight"),
        ("k_layernorm.weight", "k_norm.weight"),
        ("core_attention.softmax_offset", "sinks"),
        ("linear_q_down_proj.weight", "q_a_proj.weight"),
        ("q_layernorm.weight", "q_a_layernorm.weight"),
        ("linear_q_up_proj.weight", "q_b_proj.weight"),
        ("linear_kv_down_proj.weight", "kv_a_proj_with_mqa.weight"),
        ("kv_layernorm.weight", "kv_a_layernorm.weight"),
        ("linear_kv_up_proj.weight", "kv_b_proj.weight"),
    ):
        if f"self_attn.{source}" in theirs:
            ours[f"self_attention.{name}"] = theirs[f"self_attn.{source}"]
    if model.get("multi_latent_attention") and "self_attn.q_proj.weight" in theirs:
        ours["self_attention.linear_q_proj.weight"] = theirs["self_attn.q_proj.weight"]
    return ours


def _feed_forward(family: str, theirs: Weights) -> dict[str, Tensor]:
    ours = {"pre_mlp_layernorm.weight": theirs["post_attention_layernorm.weight"]}
    mlp = _inside(theirs, "mlp.")
    if "gate_proj.weight" in mlp:
        return ours | _two_matrices("mlp.", mlp)
    router = _inside(mlp, "router.") or _inside(mlp, "gate.")
    for name, source in (("weight", "weight"), ("bias", "bias"), ("expert_bias", "e_score_correction_bias")):
        if source in router:
            ours[f"mlp.router.{name}"] = router[source]
    experts = _inside(mlp, "experts.")
    for expert in range(experts["down_proj"].size(0)):
        ours |= _expert(f"mlp.experts.local_experts.{expert}.", {n: t[expert] for n, t in experts.items()}, family)
    if shared := _inside(mlp, "shared_experts."):
        ours |= _two_matrices("mlp.shared_experts.", shared)
    return ours


def _two_matrices(prefix: str, theirs: Weights) -> dict[str, Tensor]:
    both = torch.cat([theirs["gate_proj.weight"], theirs["up_proj.weight"]])
    return {f"{prefix}linear_fc1.weight": both, f"{prefix}linear_fc2.weight": theirs["down_proj.weight"]}


def _expert(prefix: str, theirs: Weights, family: str) -> dict[str, Tensor]:
    if family != "gpt_oss":
        return {
            f"{prefix}linear_fc1.weight": theirs["gate_up_proj"],
            f"{prefix}linear_fc2.weight": theirs["down_proj"],
        }

    def halves(interleaved: Tensor) -> Tensor:  # gate and up take turns
        return torch.cat([interleaved[0::2], interleaved[1::2]])

    return {
        f"{prefix}linear_fc1.weight": halves(theirs["gate_up_proj"].T),
        f"{prefix}linear_fc1.bias": halves(theirs["gate_up_proj_bias"]),
        f"{prefix}linear_fc2.weight": theirs["down_proj"].T,
        f"{prefix}linear_fc2.bias": theirs["down_proj_bias"],
    }


def load(built: Any, weights: Weights) -> None:
    """Fill all of a model that is whole on this rank: every parameter and buffer that is saved, each once."""
    own = {name: x for name, x in built.state_dict().items() if isinstance(x, Tensor)}
    assert sorted(own) == sorted(weights), sorted(set(own) ^ set(weights))
    for name, tensor in own.items():
        source = weights[name]
        if name in ("embedding.word_embeddings.weight", "output_layer.weight"):
            source = torch.nn.functional.pad(source, (0, 0, 0, tensor.size(0) - source.size(0)))
        assert tensor.shape == source.shape, name
        tensor.copy_(source)


def logits_differences(cases: dict[str, tuple[str, dict[str, Any]]]) -> dict[str, tuple[float, float]]:
    """For each case (family, changes to our model alone): largest difference of logits, and the largest logit."""
    return {name: _difference(*case) for name, case in cases.items()}


def _difference(family: str, changes: dict[str, Any]) -> tuple[float, float]:
    from megatron.core import parallel_state

    from trainwright.runner.models import build_model

    theirs = reference(family)
    model = MODELS[family] | changes
    start_groups(configuration(model))
    (built,) = build_model(configuration(model), vocab_size=VOCABULARY)
    with torch.no_grad():
        weights = our_weights(family, model, theirs.state_dict())
        if changes:  # a control may have fewer
            weights = {name: tensor for name, tensor in weights.items() if name in built.state_dict()}
        load(built, weights)
        ids = tokens()
        wanted = theirs(input_ids=ids).logits
        found = built.eval()(ids, positions(ids), None, runtime_gather_output=True)[..., :VOCABULARY]
    parallel_state.destroy_model_parallel()
    return (found - wanted).abs().max().item(), wanted.abs().max().item()


def further_differences(families: list[str]) -> dict[str, tuple[float, float]]:
    """For each family, of what predicts the token after the next one: largest difference to transformers' hidden
    states, and the largest."""
    return {family: _further_difference(family) for family in families}


def _further_difference(family: str) -> tuple[float, float]:
    from megatron.core import parallel_state
    from transformers.modeling_layers import MtpModel

    from trainwright.runner.models import build_model

    theirs = reference(family)
    layer = MtpModel(theirs, 1).eval().layers[0]
    for name, parameter in layer.named_parameters():
        torch.nn.init.uniform_(parameter, 0.5, 1.5) if "norm" in name else torch.nn.init.normal_(parameter, std=0.1)
    model = MODELS[family] | {"mtp_num_layers": 1}
    start_groups(configuration(model))
    (built,) = build_model(configuration(model), vocab_size=VOCABULARY)
    with torch.no_grad():
        weights = our_weights(family, model, theirs.state_dict()) | _further_weights(family, model, layer.state_dict())
        load(built, weights)
        ids = tokens()
        wanted = _their_further_states(theirs, layer, ids)
        caught: list[Tensor] = []
        built.mtp.register_forward_hook(lambda module, inputs, output: caught.append(output))
        built.eval()(ids, positions(ids), None, labels=ids)
    parallel_state.destroy_model_parallel()
    found = caught[0].chunk(2)[1].transpose(0, 1)
    return (found - wanted).abs().max().item(), wanted.abs().max().item()


def _further_weights(family: str, model: dict[str, Any], theirs: Weights) -> dict[str, Tensor]:
    names = {"enorm": "enorm", "hnorm": "hnorm", "eh_proj": "eh_proj", "final_layernorm": "post_norm"}
    ours = {f"mtp.layers.0.{name}.weight": theirs[f"{source}.weight"] for name, source in names.items()}
    block, inside = _inside(theirs, "mtp_block."), "mtp.layers.0.mtp_model_layer.layers."
    ours |= {f"{inside}0.{name}": tensor for name, tensor in _attention(model, block).items()}
    return ours | {f"{inside}1.{name}": tensor for name, tensor in _feed_forward(family, block).items()}


def _their_further_states(theirs: Any, layer: Any, ids: Tensor) -> Tensor:
    """Of each token's last hidden state and the next token's embedding; after the last token comes token 0."""
    following = torch.nn.functional.pad(ids[:, 1:], (0, 1))
    length = ids.size(1)
    mask = torch.full((length, length), torch.finfo(torch.float32).min).triu(1)[None, None]
    base = theirs.get_decoder()
    hidden = base(input_ids=ids).last_hidden_state
    embedded = base.embed_tokens(following)
    states: Tensor = layer(
        embedded, hidden, base.rotary_emb(embedded, positions(ids)), mask, position_ids=positions(ids), cache=None
    )
    return states
