"""How context parallel ranks exchange keys and values."""

from trainwright.recipes.draft import show
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.validate.plan import Plan

EXCHANGES = ("p2p", "all_gather", "a2a", "a2a+p2p")
"""Transformer Engine's: in a ring, all at once, by sharing out heads, or sharing out heads within a ring."""


def exchange_fits_heads(plan: Plan) -> None:
    """Ranks that share out heads have as many each. Our own attention, on a CPU, has one way for all."""
    model, exchange = plan.config.model, plan.draft["model.cp_comm_type"]
    if exchange is None:
        return
    if exchange not in EXCHANGES:
        raise ConfigError(f"model.cp_comm_type={show(exchange)}: allowed are {', '.join(EXCHANGES)}")
    context, groups = model.context_parallel_size, model.num_query_groups or model.num_attention_heads
    heads = max(groups // model.tensor_model_parallel_size, 1)
    if exchange == "a2a" and heads % context:
        raise ConfigError(
            f"model.cp_comm_type=a2a shares out heads: the {heads} key/value heads of a tensor parallel rank are not a "
            f"multiple of model.context_parallel_size={context}"
        )
    if plan.draft.typed("model.cp_comm_type") and (context == 1 or plan.device == "cpu"):
        needs = "model.context_parallel_size above 1" if context == 1 else "a GPU"
        plan.draft.warn(f"model.cp_comm_type has no effect without {needs}")


RULES = (exchange_fits_heads,)
