"""The optimizer's switches, and the clipping of attention's logits."""

from trainwright.recipes.errors import ConfigError
from trainwright.recipes.validate.plan import Plan

MUON = ("muon", "dist_muon")


def precision_aware_optimizer_is_distributed(plan: Plan) -> None:
    """Megatron Core keeps moments in other types only where it owns the optimizer's shards, and only Adam's."""
    optimizer = plan.config.optimizer
    if not optimizer.use_precision_aware_optimizer:
        return
    if optimizer.optimizer != "adam":
        raise ConfigError(
            f"optimizer.use_precision_aware_optimizer=true needs optimizer.optimizer=adam, not {optimizer.optimizer}"
        )
    if not optimizer.use_distributed_optimizer:
        raise ConfigError("optimizer.use_precision_aware_optimizer=true needs optimizer.use_distributed_optimizer=true")


def muon_fits_precision(plan: Plan) -> None:
    """Megatron Core's Muon has no loss scaling, and its layer-wise form lives in the 32-bit masters of 16-bit weights.

    Without them it would leave each rank's optimizers unwrapped, and fail at the first step.
    """
    optimizer, precision = plan.config.optimizer.optimizer, plan.config.mixed_precision
    if optimizer in MUON and precision.fp16:
        raise ConfigError(f"optimizer.optimizer={optimizer} does not go with fp16; use mixed_precision=bf16_mixed")
    if optimizer == "dist_muon" and not precision.bf16:
        raise ConfigError(
            "optimizer.optimizer=dist_muon needs mixed_precision=bf16_mixed; in fp32 use optimizer.optimizer=muon, "
            "which trains the same and keeps its state on every rank"
        )


def muon_is_the_same_on_more_ranks(plan: Plan) -> None:
    """Orthogonalizing each tensor parallel rank's part as a matrix of its own is another optimizer on other ranks."""
    model, optimizer = plan.config.model, plan.config.optimizer
    parts = max(model.tensor_model_parallel_size, model.expert_tensor_parallel_size or 1)
    if optimizer.optimizer in MUON and optimizer.muon_tp_mode == "blockwise" and parts > 1:
        plan.draft.warn(
            "optimizer.muon_tp_mode=blockwise: what is trained depends on the tensor parallel size; duplicated and "
            "distributed do not"
        )


def clipping_of_logits_reaches_them(plan: Plan) -> None:
    """Scaling the matrices of queries and keys scales their logits, unless a norm follows them."""
    model = plan.config.model
    extra = model.model_extra or {}
    if not extra.get("qk_clip", False):
        return
    threshold, alpha = extra.get("qk_clip_threshold", 100.0), extra.get("qk_clip_alpha", 0.5)
    if threshold <= 0:
        raise ConfigError(f"model.qk_clip_threshold={threshold} has to be above 0")
    if not 0 <= alpha <= 1:
        raise ConfigError(f"model.qk_clip_alpha={alpha} has to be from 0 to 1: the queries' share of the scaling")
    if model.qk_layernorm and not model.multi_latent_attention:
        raise ConfigError(
            "model.qk_clip=true does nothing to heads whose queries and keys are normalized (model.qk_layernorm=true); "
            "model.log_max_attention_logit=true shows their logits"
        )
    groups, ranks = model.num_query_groups or model.num_attention_heads, model.tensor_model_parallel_size
    if groups < ranks and not model.multi_latent_attention:
        raise ConfigError(
            f"model.qk_clip=true clips whole groups of heads, and model.num_query_groups={groups} splits them between "
            f"model.tensor_model_parallel_size={ranks} ranks; take at most {groups}"
        )


RULES = (
    precision_aware_optimizer_is_distributed,
    muon_fits_precision,
    muon_is_the_same_on_more_ranks,
    clipping_of_logits_reaches_them,
)
