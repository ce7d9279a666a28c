"""Sizes of the model against each other."""

from trainwright.recipes.errors import ConfigError
from trainwright.recipes.validate.plan import Plan


def heads_fill_groups(plan: Plan) -> None:
    """Every key/value head serves the same number of query heads."""
    model = plan.config.model
    if model.num_query_groups and model.num_attention_heads % model.num_query_groups:
        raise ConfigError(
            f"model.num_attention_heads={model.num_attention_heads} is not a multiple of "
            f"model.num_query_groups={model.num_query_groups}"
        )


def positions_reach(plan: Plan) -> None:
    """A learned position table has a row for every position."""
    model, length = plan.config.model, plan.config.dataset.seq_length
    if model.position_embedding_type == "learned_absolute" and (model.max_position_embeddings or 0) < length:
        raise ConfigError(
            f"model.max_position_embeddings={model.max_position_embeddings} is smaller than dataset.seq_length={length}"
        )


def rotary_width_is_even(plan: Plan) -> None:
    """Rotary embedding turns pairs of channels."""
    model = plan.config.model
    if model.position_embedding_type == "rope" and model.kv_channels and model.kv_channels % 2:
        raise ConfigError(f"model.kv_channels={model.kv_channels}: rotary embedding needs an even width of a head")


RECOMPUTABLE = ("core_attn", "layernorm", "mlp")
"""Modules of a dense model that selective recomputation can name."""


def recomputation_is_complete(plan: Plan) -> None:
    """Full recomputation says how many layers, selective names modules that exist."""
    model = plan.config.model
    if model.recompute_granularity == "full" and (model.recompute_method is None or model.recompute_num_layers is None):
        raise ConfigError(
            "model.recompute_granularity=full needs model.recompute_method (uniform or block) and "
            "model.recompute_num_layers"
        )
    layers = model.num_layers // (model.pipeline_model_parallel_size * plan.chunks)
    if model.recompute_granularity == "full" and (model.recompute_num_layers or 0) > layers:
        raise ConfigError(
            f"model.recompute_num_layers={model.recompute_num_layers} is more than the {layers} layers of a model chunk"
        )
    if model.recompute_granularity == "selective" and model.recompute_num_layers is not None:
        raise ConfigError("model.recompute_num_layers belongs to model.recompute_granularity=full; leave it out")
    for name in plan.draft["model.recompute_modules"] or ():
        if name not in RECOMPUTABLE:
            raise ConfigError(f"model.recompute_modules: {name!r} is not one of {', '.join(RECOMPUTABLE)}")


def rotary_scaling_is_ordered(plan: Plan) -> None:
    """Llama-3 scaling blends between two wavelengths."""
    model = plan.config.model
    if model.rope_scaling and model.rope_scaling_high_freq_factor <= model.rope_scaling_low_freq_factor:
        raise ConfigError(
            f"model.rope_scaling_high_freq_factor={model.rope_scaling_high_freq_factor} has to be above "
            f"rope_scaling_low_freq_factor={model.rope_scaling_low_freq_factor}"
        )


def fused_activation_exists(plan: Plan) -> None:
    """Megatron Core fuses the bias with these activations only."""
    model = plan.config.model
    if not plan.draft["model.bias_activation_fusion"]:
        return
    if model.activation_func not in ("gelu", "silu", "quick_gelu"):
        raise ConfigError(
            f"model.bias_activation_fusion=true does not know model.activation_func={model.activation_func}; "
            f"it takes gelu, silu, quick_gelu"
        )
    if model.activation_func == "gelu" and not model.gated_linear_unit and not model.add_bias_linear:
        raise ConfigError("model.bias_activation_fusion=true with gelu needs model.add_bias_linear=true")
    if model.activation_func == "quick_gelu" and not model.gated_linear_unit:
        raise ConfigError("model.bias_activation_fusion=true with quick_gelu needs model.gated_linear_unit=true")


def window_is_a_pair(plan: Plan) -> None:
    """A sliding window is what a token sees to its left, and 0 to its right."""
    window = plan.draft["model.window_size"]
    if window is not None and (len(window) != 2 or window[0] < 0 or window[1] != 0):
        raise ConfigError(
            f"model.window_size={window}: it takes [LEFT,0], the tokens before the own one that each token sees"
        )


RULES = (
    heads_fill_groups,
    positions_reach,
    rotary_width_is_even,
    rotary_scaling_is_ordered,
    recomputation_is_complete,
    fused_activation_exists,
    window_is_a_pair,
)
