"""GPT recipes."""

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.data import DatasetConfig, TokenizerConfig
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.config.running import DdpConfig, LoggerConfig
from trainwright.recipes.config.training import MixedPrecisionConfig, RngConfig, TrainConfig, ValidationConfig
from trainwright.recipes.library.pretrain import (
    NCCL_ENVIRONMENT,
    pretrain_checkpoint,
    pretrain_optimizer,
    pretrain_scheduler,
)
from trainwright.recipes.library.sft import sft_recipe
from trainwright.recipes.presets import preset_dataset


def vanilla_gpt() -> ModelConfig:
    """Sizes of GPT-2 small (12 layers of 768, 12 heads), without dropout."""
    return ModelConfig(
        num_layers=12,
        hidden_size=768,
        num_attention_heads=12,
        normalization="LayerNorm",
        activation_func="gelu",
        add_bias_linear=True,
        share_embeddings_and_output_weights=True,
        position_embedding_type="learned_absolute",
        hidden_dropout=0.0,
        attention_dropout=0.0,
    )


def vanilla_gpt_pretrain() -> ConfigContainer:
    """A plain GPT: learned positions, LayerNorm, GELU, biases, tied embeddings.

    Batches, schedule and optimizer are Megatron Bridge's `vanilla_gpt_pretrain_1gpu_h100_bf16_config`, which leaves
    the model's sizes to its caller. Here they are GPT-2 small's.
    """
    return ConfigContainer(
        model=vanilla_gpt(),
        train=TrainConfig(train_iters=300_000, global_batch_size=32, micro_batch_size=2),
        validation=ValidationConfig(eval_interval=500, eval_iters=32),
        dataset=DatasetConfig(kind="mock", seq_length=1024, dataloader_type="single", num_workers=2),
        optimizer=pretrain_optimizer(),
        scheduler=pretrain_scheduler(warmup_iters=500),
        ddp=DdpConfig(grad_reduce_in_fp32=True, use_distributed_optimizer=True),
        checkpoint=pretrain_checkpoint(),
        logger=LoggerConfig(log_interval=10),
        tokenizer=TokenizerConfig(tokenizer_type="NullTokenizer", vocab_size=32_000),
        rng=RngConfig(seed=1234),
        mixed_precision=MixedPrecisionConfig(bf16=True),
        env_vars=dict(NCCL_ENVIRONMENT),
    )


def vanilla_gpt_sft() -> ConfigContainer:
    """The same model on rows of text, unpacked. Ours: there is no public recipe of this name.

    Its tokenizer needs no file, so that any folder of JSONL can be trained on as it is.
    """
    return sft_recipe(
        model=vanilla_gpt(),
        dataset=preset_dataset("squad", seq_length=1024),
        tokenizer=TokenizerConfig(tokenizer_type="ByteLevelTokenizer"),
    )
