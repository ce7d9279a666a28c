"""Fields that a benchmark recipe brings and that this version records without acting on them.

They stand in the configuration, in `recipes show` and in comparisons, so that a benchmark's numbers are whole. A run on
GPUs says in one line which of them it leaves out; on the CPU they are off.
"""

from typing import Any

from trainwright.recipes import catalogue
from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.draft import show
from trainwright.recipes.fields import section_classes, split_path

CARRIED: dict[str, tuple[str, ...]] = {
    # CUDA graphs.
    "model.cuda_graph_impl": (
        "model.cuda_graph_scope",
        "model.cuda_graph_modules",
        "model.cuda_graph_warmup_steps",
        "model.moe_pad_experts_for_cuda_graph_inference",
        "model.use_te_rng_tracker",
        "rng.te_rng_tracker",
    ),
    "model.external_cuda_graph": (),
    # Activations that leave the GPU, or are kept in pages.
    "model.cpu_offloading": ("model.cpu_offloading_num_layers", "model.cpu_offloading_weights"),
    "model.fine_grained_activation_offloading": (
        "model.offload_modules",
        "model.fine_grained_offloading_max_inflight_offloads",
    ),
    "model.moe_paged_stash": (
        "model.moe_paged_stash_buffer_size_factor_cpu",
        "model.moe_paged_stash_buffer_size_factor_cuda",
    ),
    # Fused kernels: the experts' products, their layout and the room for tokens that they are given; rotation.
    "model.use_transformer_engine_op_fuser": ("model.moe_mlp_glu_interleave_size",),
    "model.moe_expert_rank_capacity_factor": (),
    "model.fused_single_qkv_rope": (),
    # Communication behind computation, beyond Megatron Core's own buckets.
    "comm_overlap.tp_comm_overlap": ("comm_overlap.tp_comm_overlap_cfg", "comm_overlap.tp_comm_bootstrap_backend"),
    "comm_overlap.defer_embedding_wgrad_compute": ("comm_overlap.wgrad_deferral_limit",),
    "comm_overlap.overlap_moe_expert_parallel_comm": (
        "comm_overlap.delay_wgrad_compute",
        "model.high_priority_a2a_comm_stream",
    ),
    "optimizer.overlap_param_gather_with_optimizer_step": ("comm_overlap.overlap_param_gather_with_optimizer_step",),
    "ddp.nccl_ub": (),
    # Weights that are kept in the type of their products.
    "mixed_precision.fp8_param_gather": ("mixed_precision.reuse_grad_buf_for_mxfp8_param_ag",),
    "mixed_precision.fp4_param_gather": (),
}
"""Switch -> fields that say more about it."""

REFUSED: dict[str, tuple[str, ...]] = {
    "ddp.use_megatron_fsdp": (
        "ddp.data_parallel_sharding_strategy",
        "ddp.num_distributed_optimizer_instances",
        "ddp.outer_dp_sharding_strategy",
        "ddp.fsdp_double_buffer",
        "ddp.fsdp_manual_registration",
        "ddp.suggested_communication_unit_size",
        "model.init_model_with_meta_device",
    ),
}
"""Recorded too; but memory would not be what the recipe means, so that no run on GPUs starts with one of them."""

RECORDED = tuple(path for table in (CARRIED, REFUSED) for switch, others in table.items() for path in (switch, *others))
"""Every field of the two."""


def off(path: str) -> Any:
    """The value of a field with which it does nothing: its default."""
    section, name = split_path(path)
    declared = section_classes()[section].model_fields.get(name)
    return declared.get_default(call_default_factory=True) if declared else catalogue.default(name)


def why_refused(config: ConfigContainer) -> str | None:
    """Why no run on GPUs starts with this configuration; null where one does, and on the CPU, where all are off."""
    for path in REFUSED:
        section, _, name = path.partition(".")
        if (value := getattr(getattr(config, section), name)) != off(path):
            return (
                f"{path}={show(value)} is recorded but not available yet, and this recipe's memory counts on it; "
                f"{path}={show(off(path))} trains without"
            )
    return None
