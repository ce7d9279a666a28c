"""What the pretraining recipes share."""

from trainwright.recipes.config.running import CheckpointConfig
from trainwright.recipes.config.training import OptimizerConfig, SchedulerConfig


def pretrain_optimizer() -> OptimizerConfig:
    """AdamW with its state split between data parallel ranks."""
    return OptimizerConfig(
        optimizer="adam",
        lr=3e-4,
        min_lr=3e-5,
        weight_decay=0.1,
        adam_beta1=0.9,
        adam_beta2=0.95,
        adam_eps=1e-8,
        clip_grad=1.0,
        use_distributed_optimizer=True,
    )


def pretrain_scheduler(warmup_iters: int) -> SchedulerConfig:
    """Linear warm-up and cosine decay over the whole run.

    The scheduler's weight decay is the one that acts: 0.033 at every update, as in the public recipes.
    """
    return SchedulerConfig(
        lr_decay_style="cosine", lr_warmup_iters=warmup_iters, start_weight_decay=0.033, end_weight_decay=0.033
    )


def pretrain_checkpoint() -> CheckpointConfig:
    """A checkpoint every 500 updates."""
    return CheckpointConfig(save_interval=500)


NCCL_ENVIRONMENT = {
    "NCCL_GRAPH_REGISTER": "0",
    "NCCL_NVLS_ENABLE": "0",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "TORCH_NCCL_AVOID_RECORD_STREAMS": "1",
    "TORCH_NCCL_HIGH_PRIORITY": "1",
}
"""Process environment of the public H100 recipes."""
