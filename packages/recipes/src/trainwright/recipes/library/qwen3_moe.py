"""Qwen3 with experts in every block: a softmax over the chosen ones, balanced by an auxiliary loss."""

from functools import partial
from typing import Any, NamedTuple

from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.library import qwen3
from trainwright.recipes.library.finetune import ATTENTION, finetune_recipes, peft, sft
from trainwright.recipes.library.pretrain import HUNDRED, Pretrain, pretrain_recipes
from trainwright.recipes.library.row import BF16


class Sizes(NamedTuple):
    """A row of the table of architectures."""

    dense: qwen3.Sizes
    """Of what is not experts; its feed-forward width is published and unused."""
    experts: int
    topk: int
    expert_ffn: int


# Published configurations: `Qwen/Qwen3-30B-A3B` and `Qwen/Qwen3-235B-A22B`.
SIZES = {
    "qwen3_30b_a3b": Sizes(qwen3.Sizes(48, 2048, 6144, 32, 4), experts=128, topk=8, expert_ffn=768),
    "qwen3_235b_a22b": Sizes(qwen3.Sizes(94, 4096, 12_288, 64, 4), experts=128, topk=8, expert_ffn=1536),
}

HUB = {"qwen3_30b_a3b": "Qwen/Qwen3-30B-A3B", "qwen3_235b_a22b": "Qwen/Qwen3-235B-A22B"}
"""Where weights and tokenizer are published."""

_row = partial(Pretrain, eval_interval=500, tokenizer=None)
_30b = partial(_row, "qwen3_30b_a3b")
_235b = partial(_row, "qwen3_235b_a22b")
_LONG: dict[str, Any] = {"gbs": 32, "iters": 300_000, "warmup": 500}
_FUSED: dict[str, Any] = {
    "router_fusion": True,
    "model": {"bias_activation_fusion": True, "apply_rope_fusion": True, "moe_hybridep_num_sms": 32},
}

# Numbers of Megatron Bridge's recipes of these names.
PRETRAIN = (
    _30b(8, tp=4, pp=2, ep=4, mbs=2, dispatcher="deepep", recompute="full", has_alias=False, **_LONG),
    _30b(16, ep=16, dispatcher="hybridep", **HUNDRED, **BF16, **_FUSED),
    _235b(256, tp=4, pp=16, cp=2, ep=8, dispatcher="deepep", count_ends=True, **_LONG),
)


_SHORT: dict[str, Any] = {
    **{"gbs": 32, "iters": 100, "warmup": 10, "decay": 100, "beta2": 0.95, "etp": 1, "cross_entropy": "te"},
    **{"eval_interval": 50, "eval_iters": 10, "save_interval": 100, "log_interval": 10, "overlap": True},
}
_sft = partial(sft, **_SHORT)
_peft = partial(peft, **_SHORT, dim=8, alpha=16, targets=ATTENTION, dispatcher="deepep")
_ROPE: dict[str, Any] = {
    "router_fusion": True,
    "model": {"bias_activation_fusion": True, "apply_rope_fusion": True},
}

FINETUNE = (
    _sft("qwen3_30b_a3b", 8, tp=4, pp=2, ep=4, dispatcher="deepep", data_seed=1234, has_alias=False),
    _sft("qwen3_30b_a3b", 16, ep=16, dispatcher="alltoall", data_seed=1234, **_ROPE),
    _sft("qwen3_235b_a22b", 64, tp=4, pp=16, ep=4, dispatcher="deepep", count_ends=True),
    _peft("qwen3_30b_a3b", 4, tp=4, ep=4, data_seed=1234),
    _peft("qwen3_235b_a22b", 16, tp=4, pp=4, ep=4, count_ends=True),
)


def qwen3_moe(stem: str) -> ModelConfig:
    """The published architecture of a stem."""
    sizes = SIZES[stem]
    return ModelConfig.model_validate(
        {
            **qwen3.qwen3_fields(sizes.dense),
            "num_moe_experts": sizes.experts,
            "moe_router_topk": sizes.topk,
            "moe_ffn_hidden_size": sizes.expert_ffn,
            "moe_layer_freq": 1,
            "moe_router_score_function": "softmax",
            "moe_router_pre_softmax": False,
            "moe_router_load_balancing_type": "aux_loss",
            "moe_aux_loss_coeff": 1e-3,
        }
    )


RECIPES = (*pretrain_recipes(PRETRAIN, qwen3_moe, HUB), *finetune_recipes(FINETUNE, qwen3_moe, HUB))
