"""What the recipes of supervised fine-tuning share: batches, schedule and optimizer of the public ones for one GPU."""

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.data import DatasetConfig, TokenizerConfig
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.config.running import CheckpointConfig, DdpConfig, LoggerConfig
from trainwright.recipes.config.training import (
    MixedPrecisionConfig,
    OptimizerConfig,
    RngConfig,
    SchedulerConfig,
    TrainConfig,
    ValidationConfig,
)
from trainwright.recipes.library.pretrain import NCCL_ENVIRONMENT

SEED = 5678


def sft_recipe(model: ModelConfig, dataset: DatasetConfig, tokenizer: TokenizerConfig) -> ConfigContainer:
    """A recipe of 1000 updates of 8 sequences or packed rows.

    The scheduler's weight decay is the one that acts: 0.033 at every update, as in the public recipes.
    """
    return ConfigContainer(
        model=model,
        train=TrainConfig(train_iters=1000, global_batch_size=8, micro_batch_size=1),
        validation=ValidationConfig(eval_interval=30, eval_iters=32),
        dataset=dataset,
        optimizer=OptimizerConfig(
            optimizer="adam",
            lr=5e-6,
            min_lr=0.0,
            weight_decay=0.1,
            adam_beta1=0.9,
            adam_beta2=0.98,
            adam_eps=1e-8,
            clip_grad=1.0,
            use_distributed_optimizer=True,
        ),
        scheduler=SchedulerConfig(
            lr_decay_style="cosine", lr_warmup_iters=50, start_weight_decay=0.033, end_weight_decay=0.033
        ),
        # The public recipes' precision sets it, whatever their ddp section says.
        ddp=DdpConfig(grad_reduce_in_fp32=True, use_distributed_optimizer=True),
        checkpoint=CheckpointConfig(save_interval=50),
        logger=LoggerConfig(log_interval=1),
        tokenizer=tokenizer,
        rng=RngConfig(seed=SEED),
        mixed_precision=MixedPrecisionConfig(bf16=True),
        env_vars=dict(NCCL_ENVIRONMENT),
    )
