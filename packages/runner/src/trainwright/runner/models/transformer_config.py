"""A run's configuration as Megatron Core's `TransformerConfig`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trainwright.recipes.config import ConfigContainer
from trainwright.runner.errors import RunRefused
from trainwright.runner.models.layer_pattern import LAYERS_PER_BLOCK
from trainwright.runner.models.layer_spec import uses_transformer_engine

if TYPE_CHECKING:
    import torch
    from megatron.core.transformer import TransformerConfig


def transformer_config(config: ConfigContainer) -> TransformerConfig:
    """Megatron Core's configuration of the model, its layers counted as `HybridModel` counts them.

    Every field of `config.model` that `TransformerConfig` has goes in under its own name. Raises `ValueError`
    (Megatron Core's own words) for combinations that it refuses, and `RunRefused` for rows of any length between
    pipeline stages that are told to expect one.
    """
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.enums import AttnBackend

    model = config.model
    names = {field.name for field in dataclasses.fields(TransformerConfig)}
    fields = {name: value for name, value in model if name in names and value is not None}
    dtype = params_dtype(config)
    fields |= {
        "num_layers": model.num_layers * LAYERS_PER_BLOCK,
        "is_hybrid_model": True,
        "activation_func": activation_function(model.activation_func),
        "attention_backend": AttnBackend[model.attention_backend],
        "params_dtype": dtype,
        "pipeline_dtype": dtype,
        "bf16": config.mixed_precision.bf16,
        "fp16": config.mixed_precision.fp16,
        "deallocate_pipeline_outputs": True,
    }
    if model.virtual_pipeline_model_parallel_size == 1:
        del fields["virtual_pipeline_model_parallel_size"]  # one chunk a rank is the plain schedule
    if config.dataset.enable_in_batch_packing and model.pipeline_model_parallel_size > 1:
        # Each row is as long as the sequences that fell into it, so stages have to tell each other.
        fields.setdefault("variable_seq_lengths", True)
        if not fields["variable_seq_lengths"]:
            raise RunRefused(
                "model.variable_seq_lengths=false: rows packed in the batch differ in length; leave it out"
            )
    if fields.get("variable_seq_lengths") and fields.get("num_moe_experts") is None:
        fields["moe_token_dispatcher_type"] = "alltoall"  # the default one is refused, also where nothing is dispatched
    if _is_plain_swiglu(fields) and not uses_transformer_engine():
        fields["use_te_activation_func"] = True  # the name of "take the layer specification's activation", ours here
    if model.recompute_num_layers is not None:
        fields["recompute_num_layers"] = model.recompute_num_layers * LAYERS_PER_BLOCK
    return TransformerConfig(**fields)


def _is_plain_swiglu(fields: dict[str, Any]) -> bool:
    """SwiGLU and nothing else between the two linear layers."""
    import torch.nn.functional as F

    others = ("bias_activation_fusion", "activation_func_clamp_value", "glu_linear_offset")
    return fields["activation_func"] is F.silu and fields["gated_linear_unit"] and not any(map(fields.get, others))


def params_dtype(config: ConfigContainer) -> torch.dtype:
    """The type of weights and activations."""
    import torch

    if config.mixed_precision.bf16:
        return torch.bfloat16
    return torch.float16 if config.mixed_precision.fp16 else torch.float32


def activation_function(name: str) -> Callable[[Any], Any]:
    """The function of `model.activation_func`."""
    import torch.nn.functional as F
    from megatron.core.activations import quick_gelu, squared_relu

    functions: dict[str, Callable[[Any], Any]] = {
        "gelu": F.gelu,
        "silu": F.silu,
        "relu": F.relu,
        "quick_gelu": quick_gelu,
        "squared_relu": squared_relu,
    }
    return functions[name]
