"""GLM-4.5: grouped-query attention with a partial rotary embedding, experts as in DeepSeek-V3."""

from __future__ import annotations

from typing import Any

from trainwright.recipes.config.model import ModelConfig
from trainwright.runner.huggingface.deepseek import EXPERTS, ONLY, ROUTER, read_experts, write_experts
from trainwright.runner.huggingface.family import SIZES, SWIGLU_DECODER, Family
from trainwright.runner.huggingface.fields import Fields
from trainwright.runner.huggingface.parts import copies_in_further_predictions, decoder
from trainwright.runner.huggingface.rope import read_rope, write_rope


def read(fields: Fields) -> dict[str, Any]:
    """Rotary embedding and experts."""
    return {**read_rope(fields, share=0.5), **read_experts(fields)}


def write(model: ModelConfig) -> dict[str, Any]:
    """The same back."""
    return {**write_rope(model), "partial_rotary_factor": model.rotary_percent, **write_experts(model)}


FAMILY = Family(
    model_type="glm4_moe",
    architecture="Glm4MoeForCausalLM",
    rules=decoder,
    copies=copies_in_further_predictions,
    names={**SIZES, **EXPERTS, "attention_bias": "add_qkv_bias", "use_qk_norm": "qk_layernorm"},
    ours={**SWIGLU_DECODER, **ROUTER},
    theirs=ONLY,
    read=read,
    write=write,
)
