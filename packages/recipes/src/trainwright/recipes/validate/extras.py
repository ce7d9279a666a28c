"""Fields of `TransformerConfig` beyond those that the model section declares."""

from trainwright.recipes import catalogue
from trainwright.recipes.carried import RECORDED
from trainwright.recipes.config.training import MixedPrecisionConfig
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
        "cp_comm_type",
        "disable_parameter_transpose_cache",
        "cross_entropy_fusion_impl",
        "embedding_init_method_std",
        "fp8_output_proj",
        "gradient_accumulation_fusion",
        "layernorm_zero_centered_gamma",
        "log_max_attention_logit",
        "moe_deepep_num_sms",
        "moe_hybridep_num_sms",
        "moe_hybridep_num_sms_preprocessing",
        "moe_permute_fusion_into_hybridep",
        "moe_router_force_load_balancing",
        "moe_router_padding_for_quantization",
        "overlap_p2p_comm",
        "qk_clip",
        "qk_clip_alpha",
        "qk_clip_threshold",
        "recompute_modules",
        "softmax_scale",
        "tp_only_amax_red",
    }
)
"""Fields that act in this version; any other keeps its default."""

SET_ELSEWHERE = {
    "fp8_param": "mixed_precision.fp8_param_gather",
    "fp4_param": "mixed_precision.fp4_param_gather",
    **{
        name: f"mixed_precision.{name}" for name in MixedPrecisionConfig.model_fields if name in catalogue.field_names()
    },
    "tp_comm_overlap": "comm_overlap.tp_comm_overlap",
    "tp_comm_bootstrap_backend": "comm_overlap.tp_comm_bootstrap_backend",
    "defer_embedding_wgrad_compute": "comm_overlap.defer_embedding_wgrad_compute",
    "wgrad_deferral_limit": "comm_overlap.wgrad_deferral_limit",
    "overlap_moe_expert_parallel_comm": "comm_overlap.overlap_moe_expert_parallel_comm",
    "delay_wgrad_compute": "comm_overlap.delay_wgrad_compute",
}
"""Fields of `TransformerConfig` that another section owns."""


def extras_act(plan: Plan) -> None:
    """A field that this version does not honour is refused by name, unless it only repeats the default."""
    for name, value in (plan.config.model.model_extra or {}).items():
        if name in SET_ELSEWHERE:
            raise ConfigError(f"model.{name} is set by {SET_ELSEWHERE[name]}")
        if name not in HONOURED and f"model.{name}" not in RECORDED and value != catalogue.default(name):
            raise ConfigError(
                f"model.{name}={show(value)} is not available yet; it keeps its default {show(catalogue.default(name))}"
            )


RULES = (extras_act,)
