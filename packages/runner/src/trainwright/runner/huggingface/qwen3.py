"""Qwen3, dense: Llama's shape with a norm of each head's query and key."""

from trainwright.runner.huggingface.family import SWIGLU_DECODER, Family
from trainwright.runner.huggingface.parts import decoder

FAMILY = Family(
    model_type="qwen3",
    architecture="Qwen3ForCausalLM",
    rules=decoder,
    ours={**SWIGLU_DECODER, "qk_layernorm": True},
    theirs={
        "hidden_act": ("silu",),
        "attention_bias": (False,),
        "use_sliding_window": (False,),
        "attention_dropout": (0.0,),
    },
)
