"""Llama 3, 3.1 and 3.2: grouped queries, RMSNorm, SwiGLU, rotary positions; scaled frequencies from 3.1 on."""

from functools import partial
from typing import Any, NamedTuple

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.data import TokenizerConfig
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.library.pretrain import Pretrain, pretrain_recipes
from trainwright.recipes.library.recipe import Recipe
from trainwright.recipes.library.sft import sft_recipe
from trainwright.recipes.presets import preset_dataset


class Sizes(NamedTuple):
    """A row of the table of architectures."""

    blocks: int
    hidden: int
    ffn: int
    heads: int
    positions: int
    scaling: float | None = None
    """Factor of the rotary frequencies' scaling."""
    tied: bool = False
    """Embedding and output share their weights."""


# Published configurations: `meta-llama/Meta-Llama-3-8B` and its like.
SIZES = {
    "llama3_8b": Sizes(32, 4096, 14_336, 32, 8192),
    "llama3_70b": Sizes(80, 8192, 28_672, 64, 8192),
    "llama31_8b": Sizes(32, 4096, 14_336, 32, 131_072, scaling=8.0),
    "llama31_70b": Sizes(80, 8192, 28_672, 64, 131_072, scaling=8.0),
    "llama31_405b": Sizes(126, 16_384, 53_248, 128, 131_072, scaling=8.0),
    "llama32_1b": Sizes(16, 2048, 8192, 32, 131_072, scaling=32.0, tied=True),
    "llama32_3b": Sizes(28, 3072, 8192, 24, 131_072, scaling=32.0, tied=True),
}

_row = partial(Pretrain, iters=1_168_251)

# Numbers of Megatron Bridge's recipes of these names.
PRETRAIN = (
    _row("llama3_8b", 2, cp=2, seq=8192),
    _row("llama3_8b", 16, "16k", tp=4, pp=2, cp=2, seq=16_384),
    _row("llama3_8b", 32, "64k", tp=4, pp=2, cp=4, seq=65_536),
    _row("llama3_8b", 64, "128k", tp=4, pp=2, cp=8, seq=131_072),
    _row("llama3_70b", 32, tp=4, pp=4, vp=5, cp=2, seq=8192),
    _row("llama3_70b", 32, "deterministic", tp=4, pp=4, vp=5, cp=2, seq=8192),
    _row("llama3_70b", 32, "16k", tp=8, pp=2, cp=2, seq=16_384),
    _row("llama3_70b", 256, "64k", tp=8, pp=4, cp=8, seq=65_536),
    _row("llama31_8b", 2, cp=2, seq=8192),
    _row("llama31_70b", 32, tp=4, pp=4, vp=5, cp=2, seq=131_072),
    _row("llama31_405b", 256, tp=8, pp=8, vp=2, cp=4, seq=131_072, count_ends=True),
    _row("llama31_405b", 256, "deterministic", tp=8, pp=8, vp=2, cp=4, seq=131_072, count_ends=True),
    _row("llama32_1b", 1, seq=8192),
    _row("llama32_3b", 1, seq=8192),
)


def llama(stem: str) -> ModelConfig:
    """The published architecture of a stem."""
    sizes = SIZES[stem]
    scaling: dict[str, Any] = {
        "rope_scaling": True,
        "rope_scaling_factor": sizes.scaling,
        "rope_scaling_low_freq_factor": 1.0,
        "rope_scaling_high_freq_factor": 4.0,
        "rope_scaling_original_max_position_embeddings": 8192,
    }
    return ModelConfig.model_validate(
        {
            "num_layers": sizes.blocks,
            "hidden_size": sizes.hidden,
            "ffn_hidden_size": sizes.ffn,
            "num_attention_heads": sizes.heads,
            "num_query_groups": 8,
            "vocab_size": 128_256,
            "max_position_embeddings": sizes.positions,
            "normalization": "RMSNorm",
            "layernorm_epsilon": 1e-5,
            "activation_func": "silu",
            "gated_linear_unit": True,
            "add_bias_linear": False,
            "add_qkv_bias": False,
            "qk_layernorm": False,
            "share_embeddings_and_output_weights": sizes.tied,
            "position_embedding_type": "rope",
            "rotary_base": 500_000.0,
            **(scaling if sizes.scaling else {}),
            "apply_rope_fusion": True,
        }
    )


def llama32_1b_sft() -> ConfigContainer:
    """Numbers of Megatron Bridge's `llama32_1b_sft_1gpu_h100_bf16_config`: packed SQuAD.

    The vocabulary is that of the published weights, which a run starts from. The tokenizer's hub id is the original's;
    a run names the folder of a local copy in its place.
    """
    fused = {"cross_entropy_loss_fusion": True, "cross_entropy_fusion_impl": "native"}
    return sft_recipe(
        model=ModelConfig.model_validate({**llama("llama32_1b").model_dump(exclude_unset=True), **fused}),
        dataset=preset_dataset("squad", seq_length=4096, enable_offline_packing=True),
        tokenizer=TokenizerConfig(tokenizer_type="HuggingFaceTokenizer", tokenizer_model="meta-llama/Llama-3.2-1B"),
    )


RECIPES = (
    *pretrain_recipes(PRETRAIN, llama),
    Recipe(
        name="llama32_1b_sft_1gpu_h100_bf16_config",
        alias="llama32_1b_sft_config",
        task="sft",
        world_size=1,
        hardware="h100",
        build=llama32_1b_sft,
    ),
)
