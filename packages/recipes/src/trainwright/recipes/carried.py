"""Fields that a benchmark recipe brings and that this version records without acting on them.

They stand in the configuration, in `recipes show` and in comparisons, so that a benchmark's numbers are whole. A run on
GPUs says in one line which of them it leaves out; on the CPU they are off.
"""

from typing import Any

from trainwright.recipes import catalogue
from trainwright.recipes.fields import section_classes, split_path

CARRIED = (
    # CUDA graphs.
    "model.cuda_graph_impl",
    "model.cuda_graph_scope",
    "model.cuda_graph_modules",
    "model.cuda_graph_warmup_steps",
    "model.use_te_rng_tracker",
    "rng.te_rng_tracker",
    "train.manual_gc",
    "model.moe_pad_experts_for_cuda_graph_inference",
    # Activations that leave the GPU, or are kept in pages.
    "model.cpu_offloading",
    "model.cpu_offloading_num_layers",
    "model.cpu_offloading_weights",
    "model.fine_grained_activation_offloading",
    "model.offload_modules",
    "model.moe_paged_stash",
    "model.moe_paged_stash_buffer_size_factor_cuda",
    # Transformer Engine's fused grouped products, their layout, and the room for tokens that they are given.
    "model.use_transformer_engine_op_fuser",
    "model.moe_mlp_glu_interleave_size",
    "model.moe_expert_rank_capacity_factor",
    # Communication behind computation, beyond Megatron Core's own buckets.
    "comm_overlap.tp_comm_overlap",
    "comm_overlap.tp_comm_overlap_cfg",
    "comm_overlap.tp_comm_bootstrap_backend",
    "comm_overlap.overlap_param_gather_with_optimizer_step",
    "comm_overlap.defer_embedding_wgrad_compute",
    "comm_overlap.wgrad_deferral_limit",
    "comm_overlap.overlap_moe_expert_parallel_comm",
    "comm_overlap.delay_wgrad_compute",
    "optimizer.overlap_param_gather_with_optimizer_step",
    "model.high_priority_a2a_comm_stream",
    "ddp.nccl_ub",
)

REFUSED = (
    "ddp.use_megatron_fsdp",
    "ddp.data_parallel_sharding_strategy",
    "ddp.num_distributed_optimizer_instances",
    "ddp.outer_dp_sharding_strategy",
    "ddp.fsdp_double_buffer",
    "ddp.fsdp_manual_registration",
    "ddp.suggested_communication_unit_size",
)
"""Recorded too; but with `ddp.use_megatron_fsdp=true` memory would not be what the recipe means, so no run starts."""


def off(path: str) -> Any:
    """The value of a field with which it does nothing: its default."""
    section, name = split_path(path)
    declared = section_classes()[section].model_fields.get(name)
    return declared.get_default(call_default_factory=True) if declared else catalogue.default(name)
