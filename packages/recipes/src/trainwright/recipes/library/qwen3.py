"""Qwen3, dense: grouped queries, norms of queries and keys, RMSNorm, SwiGLU, rotary positions."""

from functools import partial
from typing import Any, NamedTuple

from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.library.finetune import ATTENTION, finetune_recipes, peft, sft
from trainwright.recipes.library.pretrain import HUNDRED, Pretrain, pretrain_recipes
from trainwright.recipes.library.row import BF16


class Sizes(NamedTuple):
    """A row of the table of architectures."""

    blocks: int
    hidden: int
    ffn: int
    heads: int
    groups: int
    tied: bool = False
    """Embedding and output share their weights."""


# Published configurations: `Qwen/Qwen3-0.6B` and its like.
SIZES = {
    "qwen3_600m": Sizes(28, 1024, 3072, 16, 8, tied=True),
    "qwen3_1p7b": Sizes(28, 2048, 6144, 16, 8, tied=True),
    "qwen3_4b": Sizes(36, 2560, 9728, 32, 8, tied=True),
    "qwen3_8b": Sizes(36, 4096, 12_288, 32, 8),
    "qwen3_14b": Sizes(40, 5120, 17_408, 40, 8),
    "qwen3_32b": Sizes(64, 5120, 25_600, 64, 8),
}

HUB = {
    "qwen3_600m": "Qwen/Qwen3-0.6B",
    "qwen3_1p7b": "Qwen/Qwen3-1.7B",
    "qwen3_4b": "Qwen/Qwen3-4B",
    "qwen3_8b": "Qwen/Qwen3-8B",
    "qwen3_14b": "Qwen/Qwen3-14B",
    "qwen3_32b": "Qwen/Qwen3-32B",
}
"""Where weights and tokenizer are published."""

_row = partial(
    Pretrain, mbs=2, gbs=32, iters=300_000, warmup=500, eval_interval=500, sequence_parallel=False, tokenizer=None
)

# Numbers of Megatron Bridge's recipes of these names.
PRETRAIN = (
    _row("qwen3_600m", 1),
    _row("qwen3_1p7b", 1),
    _row("qwen3_4b", 2, tp=2),
    _row("qwen3_8b", 4, tp=4, has_alias=False),
    _row("qwen3_8b", 16, mbs=1, **HUNDRED, **BF16),
    _row("qwen3_14b", 8, tp=8),
    _row("qwen3_32b", 16, tp=8, pp=2, recompute="full"),
)


_sft = partial(sft, sequence_parallel=False)
_LONG: dict[str, Any] = {"lr": 1e-6, "min_lr": 1e-6, "warmup": 10, "distributed": False, "cross_entropy": None}
_SHORT: dict[str, Any] = {"iters": 100, "warmup": 10, "decay": 100, "beta2": 0.95, "save_interval": 100}

FINETUNE = (
    _sft("qwen3_600m", 1),
    _sft("qwen3_600m", 8, "128k", cp=8, gbs=2, seq=131_072, model={"cp_comm_type": "a2a"}, **_LONG),
    _sft("qwen3_1p7b", 1),
    _sft("qwen3_4b", 2, tp=2),
    _sft("qwen3_8b", 4, tp=4, gbs=32, data_seed=1234, **_SHORT),
    sft(
        *("qwen3_8b", 8, "32k"),
        **{"tp": 4, "cp": 2, "seq": 32_768, "data_seed": 1234, "cross_entropy": None, **_SHORT},
        model={"cp_comm_type": "a2a"},
    ),
    _sft("qwen3_14b", 8, tp=8),
    _sft("qwen3_32b", 16, tp=8, pp=2, recompute="full"),
    peft("qwen3_600m", 1),
    peft("qwen3_1p7b", 1),
    peft("qwen3_4b", 1),
    peft("qwen3_8b", 1, gbs=32, dim=8, alpha=16, targets=ATTENTION, data_seed=1234, **_SHORT),
    peft("qwen3_14b", 1),
    peft("qwen3_32b", 1, recompute="full"),
)


def qwen3(stem: str) -> ModelConfig:
    """The published architecture of a stem."""
    return ModelConfig.model_validate(qwen3_fields(SIZES[stem]))


def qwen3_fields(sizes: Sizes) -> dict[str, Any]:
    """Fields of `model` that Qwen3 has, dense and with experts."""
    return {
        "num_layers": sizes.blocks,
        "hidden_size": sizes.hidden,
        "ffn_hidden_size": sizes.ffn,
        "num_attention_heads": sizes.heads,
        "num_query_groups": sizes.groups,
        "kv_channels": 128,
        "vocab_size": 151_936,
        "max_position_embeddings": 40_960,
        "normalization": "RMSNorm",
        "layernorm_epsilon": 1e-6,
        "activation_func": "silu",
        "gated_linear_unit": True,
        "add_bias_linear": False,
        "add_qkv_bias": False,
        "qk_layernorm": True,
        "share_embeddings_and_output_weights": sizes.tied,
        "position_embedding_type": "rope",
        "rotary_base": 1_000_000.0,
        "init_method_std": 0.02,
    }


RECIPES = (*pretrain_recipes(PRETRAIN, qwen3, HUB), *finetune_recipes(FINETUNE, qwen3, HUB))
