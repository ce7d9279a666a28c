"""Llama recipes."""

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


def llama32_1b() -> ModelConfig:
    """Llama 3.2 1B: sizes of the published configuration (`meta-llama/Llama-3.2-1B`).

    The vocabulary is the tokenizer's, as in the public recipe: 32,000 for the recipe's `NullTokenizer`, 128,256 with
    the model's own tokenizer.
    """
    return ModelConfig.model_validate(
        {
            "num_layers": 16,
            "hidden_size": 2048,
            "ffn_hidden_size": 8192,
            "num_attention_heads": 32,
            "num_query_groups": 8,
            "max_position_embeddings": 131_072,
            "normalization": "RMSNorm",
            "layernorm_epsilon": 1e-5,
            "activation_func": "silu",
            "gated_linear_unit": True,
            "add_bias_linear": False,
            "add_qkv_bias": False,
            "qk_layernorm": False,
            "share_embeddings_and_output_weights": True,
            "position_embedding_type": "rope",
            "rotary_base": 500_000.0,
            "rope_scaling": True,
            "rope_scaling_factor": 32.0,
            "rope_scaling_low_freq_factor": 1.0,
            "rope_scaling_high_freq_factor": 4.0,
            "rope_scaling_original_max_position_embeddings": 8192,
            "cross_entropy_loss_fusion": True,
            # Further fields of TransformerConfig.
            "apply_rope_fusion": True,
            "cross_entropy_fusion_impl": "te",
        }
    )


def llama32_1b_pretrain() -> ConfigContainer:
    """Numbers of Megatron Bridge's `llama32_1b_pretrain_1gpu_h100_bf16_config`."""
    return ConfigContainer(
        model=llama32_1b(),
        train=TrainConfig(train_iters=1_168_251, global_batch_size=512, micro_batch_size=1),
        validation=ValidationConfig(eval_interval=2000, eval_iters=32),
        dataset=DatasetConfig(kind="mock", seq_length=8192, dataloader_type="single", num_workers=8),
        optimizer=pretrain_optimizer(),
        scheduler=pretrain_scheduler(warmup_iters=2000),
        ddp=DdpConfig(
            grad_reduce_in_fp32=True,
            overlap_grad_reduce=True,
            overlap_param_gather=True,
            average_in_collective=True,
            use_distributed_optimizer=True,
        ),
        checkpoint=pretrain_checkpoint(),
        logger=LoggerConfig(log_interval=10),
        tokenizer=TokenizerConfig(tokenizer_type="NullTokenizer", vocab_size=32_000),
        rng=RngConfig(seed=1234),
        mixed_precision=MixedPrecisionConfig(bf16=True),
        env_vars=dict(NCCL_ENVIRONMENT),
    )


def llama32_1b_sft() -> ConfigContainer:
    """Numbers of Megatron Bridge's `llama32_1b_sft_1gpu_h100_bf16_config`: packed SQuAD.

    The vocabulary is that of the published weights, which a run starts from. The tokenizer's hub id is the original's;
    a run names the folder of a local copy in its place.
    """
    return sft_recipe(
        model=llama32_1b().model_copy(update={"vocab_size": 128_256, "cross_entropy_fusion_impl": "native"}),
        dataset=preset_dataset("squad", seq_length=4096, enable_offline_packing=True),
        tokenizer=TokenizerConfig(tokenizer_type="HuggingFaceTokenizer", tokenizer_model="meta-llama/Llama-3.2-1B"),
    )
