"""Sizes of the model against each other."""

from trainwright.recipes.blocks import blocks_per_chunk, windowed_blocks
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.draft import show
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
    if model.position_embedding_type in ("rope", "yarn") and model.kv_channels and model.kv_channels % 2:
        raise ConfigError(f"model.kv_channels={model.kv_channels}: rotary embedding needs an even width of a head")


RECOMPUTABLE = ("core_attn", "layernorm", "mlp")
"""Modules of every model that selective recomputation can name."""


def _recomputable(model: ModelConfig) -> tuple[str, ...]:
    """Those of this model."""
    experts = model.num_moe_experts is not None
    further = {
        "moe": experts,
        "moe_act": experts and model.moe_grouped_gemm,
        "shared_experts": experts and model.moe_shared_expert_intermediate_size is not None,
        "mla_up_proj": model.multi_latent_attention,
    }
    return (*RECOMPUTABLE, *(name for name, exists in further.items() if exists))


def recomputation_is_complete(plan: Plan) -> None:
    """Full recomputation says how many layers, selective names modules that exist."""
    model = plan.config.model
    if model.recompute_granularity == "full" and (model.recompute_method is None or model.recompute_num_layers is None):
        raise ConfigError(
            "model.recompute_granularity=full needs model.recompute_method (uniform or block) and "
            "model.recompute_num_layers"
        )
    layers = max(blocks_per_chunk(model)) if model.recompute_granularity == "full" else 0
    if model.recompute_granularity == "full" and (model.recompute_num_layers or 0) > layers:
        raise ConfigError(
            f"model.recompute_num_layers={model.recompute_num_layers} is more than the {layers} layers of a model chunk"
        )
    if model.recompute_granularity == "selective" and model.recompute_num_layers is not None:
        raise ConfigError("model.recompute_num_layers belongs to model.recompute_granularity=full; leave it out")
    for name in plan.draft["model.recompute_modules"] or ():
        if name not in (known := _recomputable(model)):
            raise ConfigError(f"model.recompute_modules: {name!r} is not one of {', '.join(known)}")


LATENT = ("kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim")
"""Sizes without which multi-latent attention is not described."""


def latents_are_described(plan: Plan) -> None:
    """Multi-latent attention has all its sizes, its own rotary embedding, and nothing of the other kind."""
    model = plan.config.model
    if not model.multi_latent_attention:
        return
    for name in LATENT:
        if getattr(model, name) is None:
            raise ConfigError(f"model.multi_latent_attention=true needs model.{name}")
    if (model.qk_pos_emb_head_dim or 0) % 2:
        raise ConfigError(f"model.qk_pos_emb_head_dim={model.qk_pos_emb_head_dim}: rotary embedding turns pairs")
    if model.position_embedding_type != "rope":
        raise ConfigError(
            f"model.position_embedding_type={model.position_embedding_type}: multi-latent attention takes rope, and "
            f"model.rope_type says which"
        )
    for name, needed in (
        ("num_query_groups", model.num_attention_heads),
        ("rope_scaling", False),
        ("rotary_percent", 1.0),
        ("add_qkv_bias", False),
        ("softmax_scale", None),
    ):
        value = getattr(model, name, None)
        if value != needed:
            raise ConfigError(f"model.{name}={show(value)}: multi-latent attention takes {show(needed)}")
    if model.rope_type == "rope" and model.rotary_scaling_factor != 1.0:
        raise ConfigError(f"model.rotary_scaling_factor={model.rotary_scaling_factor} needs model.rope_type=yarn")
    if model.rope_type == "yarn" and model.beta_fast < model.beta_slow:
        raise ConfigError(f"model.beta_fast={model.beta_fast} has to be at least beta_slow={model.beta_slow}")
    if model.tensor_model_parallel_size > 1 and not model.sequence_parallel:
        raise ConfigError(
            f"multi-latent attention with model.tensor_model_parallel_size={model.tensor_model_parallel_size} needs "
            f"model.sequence_parallel=true: its latents are whole on every rank"
        )


def further_predictions_have_their_block(plan: Plan) -> None:
    """Their blocks come after the last, where lists of blocks and tied weights end."""
    model = plan.config.model
    if model.mtp_num_layers is None:
        return
    if model.window_size is not None and model.window_attn_skip_freq is not None:
        raise ConfigError("model.mtp_num_layers: model.window_attn_skip_freq does not say which window its blocks have")
    if model.context_parallel_size > 1:
        raise ConfigError(
            f"model.mtp_num_layers with model.context_parallel_size={model.context_parallel_size} is not available: "
            f"Megatron Core would weigh the last tokens of a sequence by the rank that holds them"
        )
    if model.share_embeddings_and_output_weights and model.pipeline_model_parallel_size > 1:
        raise ConfigError(
            "model.mtp_num_layers over pipeline stages needs model.share_embeddings_and_output_weights=false: the last "
            "stage has its own copy of the embedding"
        )


def rotary_scaling_is_whole(plan: Plan) -> None:
    """YaRN turns all channels of a head, and ramps from many turns to few."""
    model = plan.config.model
    if model.position_embedding_type != "yarn":
        return
    if model.rotary_percent < 1.0:
        raise ConfigError(f"model.rotary_percent={model.rotary_percent}: model.position_embedding_type=yarn turns all")
    if model.rope_scaling:
        raise ConfigError("model.rope_scaling=true is for model.position_embedding_type=rope; yarn scales by itself")
    if model.yarn_beta_fast < model.yarn_beta_slow:
        raise ConfigError(
            f"model.yarn_beta_fast={model.yarn_beta_fast} has to be at least yarn_beta_slow={model.yarn_beta_slow}"
        )
    if (model.yarn_mscale is None) != (model.yarn_mscale_all_dim is None):
        raise ConfigError("model.yarn_mscale and model.yarn_mscale_all_dim go together; set both or none")


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
    window = plan.config.model.window_size
    if window is not None and (len(window) != 2 or window[0] < 0 or window[1] != 0):
        raise ConfigError(
            f"model.window_size={window}: it takes [LEFT,0], the tokens before the own one that each token sees"
        )
    windowed_blocks(plan.config.model)


RULES = (
    heads_fill_groups,
    positions_reach,
    rotary_width_is_even,
    latents_are_described,
    further_predictions_have_their_block,
    rotary_scaling_is_whole,
    rotary_scaling_is_ordered,
    recomputation_is_complete,
    fused_activation_exists,
    window_is_a_pair,
)
