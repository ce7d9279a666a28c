"""Fields of `TransformerConfig` beyond those that the model section declares."""

from trainwright.recipes import catalogue
from trainwright.recipes.draft import show
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.validate.plan import Plan

HONOURED = frozenset(
    {
        "apply_rope_fusion",
        "batch_p2p_comm",
        "batch_p2p_sync",
        "bias_activation_fusion",
        "bias_dropout_fusion",
        "calculate_per_token_loss",
        "cross_entropy_fusion_impl",
        "embedding_init_method_std",
        "gradient_accumulation_fusion",
        "layernorm_zero_centered_gamma",
        "log_max_attention_logit",
        "moe_hybridep_num_sms",
        "overlap_p2p_comm",
        "qk_clip",
        "qk_clip_alpha",
        "qk_clip_threshold",
        "recompute_modules",
        "softmax_scale",
    }
)
"""Fields that act in this version; any other keeps its default."""

SET_ELSEWHERE = {
    "bf16": "mixed_precision.bf16",
    "fp16": "mixed_precision.fp16",
    "fp8": "mixed_precision.fp8",
    "fp8_recipe": "mixed_precision.fp8_recipe",
}
"""Fields of `TransformerConfig` that another section owns."""


def extras_act(plan: Plan) -> None:
    """A field that this version does not honour is refused by name, unless it only repeats the default."""
    for name, value in (plan.config.model.model_extra or {}).items():
        if name in SET_ELSEWHERE:
            raise ConfigError(f"model.{name} is set by {SET_ELSEWHERE[name]}")
        if name not in HONOURED and value != catalogue.default(name):
            raise ConfigError(
                f"model.{name}={show(value)} is not available yet; it keeps its default {show(catalogue.default(name))}"
            )


RULES = (extras_act,)
