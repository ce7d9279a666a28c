"""Columns that rows of several families share, by what they mean together."""

from typing import Any

ROUTER = ("moe_router", "moe_preprocess")
ATTENTION_AND_ROUTER = ("attn", *ROUTER)
MLP = ("mlp",)
"""What is recorded as CUDA graphs."""

FP8_ATTENTION: dict[str, Any] = {"mixed": {"fp8_dot_product_attention": True}}

FUSED_BUT_ATTENTION: dict[str, Any] = {
    "graphs": "iteration",
    "capacity": 1.5,
    "priority": True,
    "ep_overlap": True,
    "scan_sms": 32,
}
"""A whole iteration in one graph: experts with fixed room, whose tokens travel behind other computation."""

FUSED: dict[str, Any] = {**FUSED_BUT_ATTENTION, **FP8_ATTENTION}

FINETUNE: dict[str, Any] = {
    "min_lr": 0.0,
    "beta2": 0.98,
    "eval_interval": 30,
    "save_interval": 50,
    "seed": 5678,
    "workers": 1,
    "ddp": {"overlap_grad_reduce": False, "overlap_param_gather": False, "average_in_collective": False},
    "model": {"disable_parameter_transpose_cache": True},
}

SMALL_STATES: dict[str, Any] = {
    "use_precision_aware_optimizer": True,
    "exp_avg_dtype": "bfloat16",
    "exp_avg_sq_dtype": "bfloat16",
}
"""Fields of `optimizer`."""
NOT_GATHERED: dict[str, Any] = {"fp8_param_gather": False, "reuse_grad_buf_for_mxfp8_param_ag": False}
"""Fields of `mixed_precision`, against what MXFP8 stands for."""
SHARDED: dict[str, Any] = {"data_parallel_sharding_strategy": "optim_grads_params"}
"""Fields of `ddp`, which nothing reads without Megatron FSDP."""
EVEN_ENDS = {"account_for_embedding_in_pipeline_split": True, "account_for_loss_in_pipeline_split": True}
"""Fields of `model`: embedding and loss count as a block each when blocks are shared out."""

ONE_CONNECTION: dict[str, str | None] = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
LARGE_CHUNKS: dict[str, str | None] = {"NCCL_P2P_NET_CHUNKSIZE": "2097152"}
NO_SEGMENTS: dict[str, str | None] = {"NCCL_GRAPH_REGISTER": None, "PYTORCH_CUDA_ALLOC_CONF": None}
"""Process environment."""
