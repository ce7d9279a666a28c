"""Llama 3, 3.1, 3.2 and models of their shape."""

from trainwright.runner.huggingface.family import Family
from trainwright.runner.huggingface.parts import decoder

FAMILY = Family(
    model_type="llama",
    architecture="LlamaForCausalLM",
    rules=decoder,
    theirs={
        "hidden_act": ("silu",),
        "attention_bias": (False,),
        "mlp_bias": (False,),
        "pretraining_tp": (1,),
        "attention_dropout": (0.0,),
    },
)
