"""Llama 3, 3.1 and 3.2: grouped queries, RMSNorm, SwiGLU, rotary positions; scaled frequencies from 3.1 on."""

from functools import partial
from typing import Any, NamedTuple

from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.library.finetune import finetune_recipes, peft, sft
from trainwright.recipes.library.pretrain import Pretrain, pretrain_recipes


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
_LOW: dict[str, Any] = {"gbs": 768, "lr": 6e-4, "min_lr": 6e-6}

# Numbers of Megatron Bridge's recipes of these names.
PRETRAIN = (
    _row("llama3_8b", 2, cp=2, seq=8192),
    _row("llama3_8b", 2, cp=2, seq=8192, precision="fp8cs", called="low_precision_pretrain", **_LOW),
    _row("llama3_8b", 2, cp=2, seq=8192, precision="fp8mx", has_alias=False, **_LOW),
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


HUB = {
    "llama3_8b": "meta-llama/Meta-Llama-3-8B",
    "llama3_70b": "meta-llama/Meta-Llama-3-70B",
    "llama31_8b": "meta-llama/Meta-Llama-3.1-8B",
    "llama31_70b": "meta-llama/Meta-Llama-3.1-70B",
    "llama31_405b": "meta-llama/Meta-Llama-3.1-405B",
    "llama32_1b": "meta-llama/Llama-3.2-1B",
    "llama32_3b": "meta-llama/Llama-3.2-3B",
}
"""Where weights and tokenizer are published."""

_sft = partial(sft, seq=4096, sequence_parallel=False)
_peft = partial(peft, seq=4096, sequence_parallel=False, cross_entropy=None, distributed=False)
_405b: dict[str, Any] = {"seq": 2048, "grads": "bf16", "count_ends": True, "sequence_parallel": True}

FINETUNE = (
    _sft("llama3_8b", 2, tp=2),
    _sft("llama3_70b", 32, tp=8, pp=4),
    _sft("llama31_8b", 2, tp=2),
    _sft("llama31_70b", 32, tp=8, pp=4),
    _sft("llama31_405b", 128, tp=8, pp=16, gbs=16, overlap=True, **_405b),
    _sft("llama32_1b", 1),
    _sft("llama32_3b", 1),
    _peft("llama3_8b", 1, dim=8, alpha=16),
    _peft("llama3_70b", 8, tp=8, dim=16),
    _peft("llama31_8b", 1, dim=8, alpha=16),
    _peft("llama31_70b", 8, tp=8, dim=16),
    _peft("llama31_405b", 32, tp=4, pp=8, vp=8, gbs=32, dim=16, targets=("linear_qkv",), **_405b),
    _peft("llama32_1b", 1),
    _peft("llama32_3b", 1),
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


RECIPES = (*pretrain_recipes(PRETRAIN, llama), *finetune_recipes(FINETUNE, llama, HUB))
