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


def recomputation_is_complete(plan: Plan) -> None:
    """Full recomputation says how many layers, selective says nothing about them."""
    model = plan.config.model
    if model.recompute_granularity == "full" and (model.recompute_method is None or model.recompute_num_layers is None):
        raise ConfigError(
            "model.recompute_granularity=full needs model.recompute_method (uniform or block) and "
            "model.recompute_num_layers"
        )
    for field in ("recompute_method", "recompute_num_layers"):
        if model.recompute_granularity != "full" and getattr(model, field) is not None:
            raise ConfigError(f"model.{field} has no effect without model.recompute_granularity=full")


RULES = (heads_fill_groups, positions_reach, rotary_width_is_even, recomputation_is_complete)
