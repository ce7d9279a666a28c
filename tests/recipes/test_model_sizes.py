"""The architectures are the published ones."""

from typing import Any

import pytest
from public import MODEL_ROWS, PARAMETERS
from recipes_runs import value

from trainwright.recipes import ConfigContainer, Selection, catalogue, resolve
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.library import RECIPES
from trainwright.recipes.parameters import active_parameters, whole_model

STEMS = sorted(MODEL_ROWS)

ACTIVATIONS = {
    "torch.nn.functional.silu": "silu",
    "torch._C._nn.gelu": "gelu",
    "megatron.core.fusions.fused_bias_geglu.quick_gelu": "quick_gelu",
}

NOT_OURS = ("vocab_size", "attention_softmax_in_fp32")
"""A pretraining recipe has its tokenizer's vocabulary; every attention here has its softmax in 32 bits."""

PUBLISHED = {
    "max_position_embeddings": "max_position_embeddings",
    "norm_eps": "layernorm_epsilon",
    "rope_theta": "rotary_base",
    "partial_rotary_factor": "rotary_percent",
    "tie_word_embeddings": "share_embeddings_and_output_weights",
    "num_kv_heads": "num_query_groups",
    "head_dim": "kv_channels",
    "qk_nope_head_dim": "qk_head_dim",
    "qk_rope_head_dim": "qk_pos_emb_head_dim",
    "v_head_dim": "v_head_dim",
    "q_lora_rank": "q_lora_rank",
    "kv_lora_rank": "kv_lora_rank",
    "num_experts": "num_moe_experts",
    "experts_per_token": "moe_router_topk",
    "moe_ffn_hidden_size": "moe_ffn_hidden_size",
    "router_scaling_factor": "moe_router_topk_scaling_factor",
    "router_score_func": "moe_router_score_function",
    "swiglu_limit": "activation_func_clamp_value",
    "sinks": "softmax_type",
}
"""Name in a published configuration -> field."""

LLAMA_SCALING = {
    "factor": "rope_scaling_factor",
    "low_freq_factor": "rope_scaling_low_freq_factor",
    "high_freq_factor": "rope_scaling_high_freq_factor",
    "original_max_position_embeddings": "rope_scaling_original_max_position_embeddings",
}
YARN = {
    "factor": "yarn_rotary_scaling_factor",
    "original_max_position_embeddings": "yarn_original_max_position_embeddings",
    "beta_fast": "yarn_beta_fast",
    "beta_slow": "yarn_beta_slow",
    "truncate": "yarn_correction_range_round_to_int",
}
LATENT_YARN = {
    "factor": "rotary_scaling_factor",
    **{name: name for name in ("original_max_position_embeddings", "beta_fast", "beta_slow", "mscale")},
    "mscale_all_dim": "mscale_all_dim",
}
"""Of multi-latent attention."""


def config_of(stem: str) -> ConfigContainer:
    """A pretraining recipe of the stem, resolved."""
    name = next(recipe.name for recipe in RECIPES if recipe.stem == stem and recipe.task == "pretrain")
    return resolve(Selection(recipe=name), [], world_size=None, device="cuda").config


def published(stem: str) -> dict[str, Any]:
    return {name: entry["v"] for name, entry in MODEL_ROWS[stem]["arch"].items() if entry["v"] is not None}


def is_read(model: ModelConfig, name: str) -> bool:
    """Whether the model's architecture depends on the field."""
    if name in ("mscale", "mscale_all_dim", "beta_fast", "beta_slow"):
        return model.rope_type == "yarn"
    if name == "kv_channels":
        return not model.multi_latent_attention
    return name != "rope_scaling_factor" or model.rope_scaling


def spelled(name: str, public: Any) -> Any:
    """A value of Megatron Bridge's in the spelling of ours."""
    if name == "activation_func":
        return ACTIVATIONS[public]
    if name == "moe_layer_freq" and isinstance(public, str):
        runs = [(run.partition("*")[0], run.partition("*")[2]) for run in public.split(",")]
        return [int(kind) for kind, count in runs for _ in range(int(count or 1))]
    return public


@pytest.mark.parametrize("stem", STEMS)
def test_the_model_is_what_the_public_converter_derives(stem: str) -> None:
    config = config_of(stem)
    differing = {}
    for name, public in MODEL_ROWS[stem]["megatron_derived"].items():
        if name in NOT_OURS or not is_read(config.model, name):
            continue
        declared = name in ModelConfig.model_fields or name in (config.model.model_extra or {})
        here = value(config, f"model.{name}") if declared else catalogue.default(name)
        if here != spelled(name, public):
            differing[name] = (here, public)
    assert differing == {}


@pytest.mark.parametrize("stem", STEMS)
def test_the_model_is_the_published_one(stem: str) -> None:
    """Numbers that the converter's output does not show among them."""
    model, wanted = config_of(stem).model, published(stem)
    differing = {
        name: (getattr(model, field), wanted[name])
        for name, field in PUBLISHED.items()
        if name in wanted and is_read(model, field) and getattr(model, field) != wanted[name]
    }
    assert differing == {}
    groups = (wanted.get("router_n_group", 1), wanted.get("router_topk_group", 1))
    assert (model.moe_router_num_groups or 1, model.moe_router_group_topk or 1) == groups
    assert (model.window_size or [None])[0] == (wanted["sliding_window"] - 1 if wanted.get("sliding_window") else None)


@pytest.mark.parametrize("stem", [stem for stem in STEMS if published(stem).get("rope_scaling")])
def test_rotary_frequencies_are_scaled_as_published(stem: str) -> None:
    model, scaling = config_of(stem).model, dict(published(stem)["rope_scaling"])
    kind = scaling.pop("rope_type", None) or scaling.pop("type")
    fields = LLAMA_SCALING if kind == "llama3" else LATENT_YARN if model.multi_latent_attention else YARN
    assert (kind == "llama3") == model.rope_scaling
    assert (kind == "yarn") == ("yarn" in (model.position_embedding_type, model.rope_type))
    assert {fields[name]: number for name, number in scaling.items()} == {
        fields[name]: getattr(model, fields[name]) for name in scaling
    }


@pytest.mark.parametrize("stem", sorted(PARAMETERS))
def test_it_has_as_many_parameters_as_the_published_one(stem: str) -> None:
    """At the topology of its recipe, which changes nothing of them."""
    model = config_of(stem).model.model_copy(update={"mtp_num_layers": None})
    assert whole_model(model, published(stem)["vocab_size"]).total == PARAMETERS[stem]


# What the names and the models' own papers say, in billions; digits as given there.
@pytest.mark.parametrize(
    ("stem", "total", "active"),
    [
        ("qwen3_30b_a3b", 30.5, 3.3),
        ("qwen3_235b_a22b", 235, 22),
        ("deepseek_v3", 671, 37),
        ("moonlight_16b", 16, 3),
        ("kimi_k2", 1030, 32),
    ],
)
def test_a_token_passes_as_many_parameters_as_the_name_says(stem: str, total: float, active: float) -> None:
    model = config_of(stem).model.model_copy(update={"mtp_num_layers": None})
    vocabulary = published(stem)["vocab_size"]
    assert whole_model(model, vocabulary).total / 1e9 == pytest.approx(total, rel=0.01)
    assert active_parameters(model, vocabulary) / 1e9 == pytest.approx(active, rel=0.04)


def test_every_model_of_the_library_is_compared() -> None:
    assert {recipe.stem for recipe in RECIPES} == set(STEMS) == {*PARAMETERS, "vanilla_gpt"}
