"""What a family is, and how its `config.json` and our configuration become each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainwright.recipes.blocks import expert_blocks, windowed_blocks
from trainwright.recipes.comparison import NOT_SHAPING
from trainwright.recipes.config.model import ModelConfig
from trainwright.runner.errors import RunRefused
from trainwright.runner.huggingface.fields import REQUIRED, Fields
from trainwright.runner.huggingface.rope import read_rope, write_rope
from trainwright.runner.huggingface.rules import Rule

SIZES = {
    "num_hidden_layers": "num_layers",
    "hidden_size": "hidden_size",
    "intermediate_size": "ffn_hidden_size",
    "num_attention_heads": "num_attention_heads",
    "num_key_value_heads": "num_query_groups",
    "head_dim": "kv_channels",
    "vocab_size": "vocab_size",
    "max_position_embeddings": "max_position_embeddings",
    "rms_norm_eps": "layernorm_epsilon",
    "tie_word_embeddings": "share_embeddings_and_output_weights",
    "initializer_range": "init_method_std",
}
"""Their names and ours of what most families have."""

DEFAULTS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "num_key_value_heads": lambda values: values["num_attention_heads"],
    "head_dim": lambda values: values["hidden_size"] // values["num_attention_heads"],
    "rms_norm_eps": lambda _: 1e-6,
    "tie_word_embeddings": lambda _: False,
    "initializer_range": lambda _: 0.02,
    "attention_bias": lambda _: False,
    "use_qk_norm": lambda _: False,
}
"""What transformers takes where a `config.json` leaves these out; the other sizes must stand there."""

SWIGLU_DECODER = {
    "normalization": "RMSNorm",
    "activation_func": "silu",
    "gated_linear_unit": True,
    "add_bias_linear": False,
}
"""Ours of what most families have."""

TRAINING_ONLY = frozenset(
    """
    seq_length make_vocab_size_divisible_by vocab_size max_position_embeddings hidden_dropout attention_dropout
    init_method_std embedding_init_method_std num_layers_in_first_pipeline_stage num_layers_in_last_pipeline_stage
    account_for_embedding_in_pipeline_split account_for_loss_in_pipeline_split pipeline_model_parallel_layout
    moe_router_bias_update_rate moe_router_dtype moe_router_load_balancing_type moe_aux_loss_coeff moe_z_loss_coeff
    moe_grouped_gemm moe_permute_fusion moe_router_fusion moe_token_dispatcher_type moe_flex_dispatcher_backend
    moe_shared_expert_overlap moe_hybridep_num_sms moe_router_padding_for_quantization mtp_loss_scaling_factor
    qk_clip qk_clip_threshold qk_clip_alpha log_max_attention_logit
    """.split()  # noqa: SIM905 - a list of words reads better as words
) | {name.removeprefix("model.") for name in NOT_SHAPING}
"""Fields of ours that change nothing in what given weights compute, and sizes that are looked at apart."""

LATENT = frozenset(
    """
    q_lora_rank kv_lora_rank qk_head_dim qk_pos_emb_head_dim v_head_dim rope_type rotary_scaling_factor
    original_max_position_embeddings beta_fast beta_slow mscale mscale_all_dim
    """.split()  # noqa: SIM905 - a list of words reads better as words
)


def architecture(model: ModelConfig) -> dict[str, Any]:
    """The configuration but for what changes nothing in what given weights compute."""
    return {name: value for name, value in model if name not in TRAINING_ONLY}


def effective(model: ModelConfig) -> dict[str, Any]:
    """The same without fields that belong to what this model does not have."""
    values = architecture(model)
    mixed = expert_blocks(model)
    values |= {"moe_layer_freq": mixed, "window_attn_skip_freq": windowed_blocks(model)}
    if all(mixed) and model.moe_ffn_hidden_size is not None:
        del values["ffn_hidden_size"]  # no block is dense
    latent_yarn = model.multi_latent_attention and model.rope_type == "yarn"
    switches: tuple[tuple[bool, Callable[[str], bool]], ...] = (
        (model.rope_scaling, lambda name: name.startswith("rope_scaling_")),
        (model.position_embedding_type == "yarn", lambda name: name.startswith("yarn_")),
        (model.num_moe_experts is not None, lambda name: name.startswith("moe_")),
        (model.multi_latent_attention, LATENT.__contains__),
        (not model.multi_latent_attention, lambda name: name in ("num_query_groups", "kv_channels", "rotary_percent")),
        (
            latent_yarn or not model.multi_latent_attention,
            lambda name: name in LATENT and name[0] in "robm" and name != "rope_type",
        ),
    )
    for acts, belongs in switches:
        if not acts:
            values = {name: value for name, value in values.items() if not belongs(name)}
    return values


def differences(old: ModelConfig, new: ModelConfig) -> list[str]:
    """`field: old -> new` for what the two compute differently from the same weights."""
    before, after = effective(old), effective(new)
    unset = ModelConfig.model_fields
    default = {name: unset[name].default if name in unset else None for name in before.keys() | after.keys()}
    return [
        f"{name}: {before.get(name, default[name])} -> {after.get(name, default[name])}"
        for name in dict.fromkeys([*before, *after])
        if not _same(before.get(name, default[name]), after.get(name, default[name]))
    ]


def _same(one: Any, other: Any) -> bool:
    """Numbers that some program has kept in float32 are the same as before."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-7)
    return bool(one == other)


@dataclass(frozen=True)
class Family:
    """A family of published models with one layout of weights."""

    model_type: str
    """As `config.json` has it."""
    architecture: str
    """Its class in transformers."""
    rules: Callable[[ModelConfig], list[Rule]]
    further_types: tuple[str, ...] = ()
    """Other words of `config.json` for the same."""
    names: Mapping[str, str] = field(default_factory=lambda: SIZES)
    """Fields of theirs that are fields of ours under another name."""
    also: Mapping[str, str] = field(default_factory=dict)
    """A second name of some of them."""
    follows: tuple[str, ...] = ()
    """Fields of theirs that follow from others."""
    copies: Callable[[ModelConfig], dict[str, str]] = lambda _: {}
    """Tensors that files hold twice: the second one's name, and the first's."""
    ours: Mapping[str, Any] = field(default_factory=lambda: SWIGLU_DECODER)
    """What always holds here."""
    theirs: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Fields of theirs that may have these values only; the first one where it is left out."""
    read: Callable[[Fields], dict[str, Any]] = read_rope
    """The rest, from theirs to ours."""
    write: Callable[[ModelConfig], dict[str, Any]] = write_rope
    """And back."""

    def model_config(self, fields: Fields) -> ModelConfig:
        """Ours of a `config.json`.

        Raises:
            RunRefused: it lacks something, or says something that is not known here.
        """
        for name, allowed in self.theirs.items():
            fields.only(name, allowed)
        values: dict[str, Any] = {}
        for name in self.names:
            default = DEFAULTS[name](values) if name in DEFAULTS else REQUIRED
            given = name if name not in self.also or fields.values.get(name) is not None else self.also[name]
            values[name] = fields.take(given, default)
        for name in (*self.follows, *self.also.values()):
            fields.take(name, None)
        ours = {**self.ours, **{mine: values[name] for name, mine in self.names.items()}, **self.read(fields)}
        try:
            return ModelConfig.model_validate(ours)
        except ValueError as error:
            first = error.errors()[0] if hasattr(error, "errors") else {"loc": ("",), "msg": str(error)}
            mine = str(first["loc"][0])
            name = next((name for name, own in self.names.items() if own == mine), mine)
            raise RunRefused(f"{fields.where}: {name}={values.get(name)!r}: {first['msg']}") from error

    def hf_config(self, model: ModelConfig) -> dict[str, Any]:
        """A `config.json` of ours, without the type of the weights."""
        return {
            "architectures": [self.architecture],
            "model_type": self.model_type,
            **{name: allowed[0] for name, allowed in self.theirs.items()},
            **{name: getattr(model, mine) for name, mine in self.names.items()},
            **self.write(model),
        }

    def lost(self, model: ModelConfig) -> list[str]:
        """What of ours a `config.json` of this family does not carry."""
        try:
            beyond = [f"model.layers.{model.num_layers}."] if model.mtp_num_layers else []
            return differences(model, self.model_config(Fields(self.hf_config(model), self.model_type, beyond)))
        except RunRefused as error:
            return [str(error)]
