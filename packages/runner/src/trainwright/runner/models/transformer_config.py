"""A run's configuration as Megatron Core's `TransformerConfig`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trainwright.recipes.blocks import windowed_blocks
from trainwright.recipes.carried import RECORDED
from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.model import YARN_FIELDS
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
    pipeline stages that are told to expect one, and for fp8 or fp4 without Transformer Engine.
    """
    from megatron.core.transformer import MLATransformerConfig, TransformerConfig
    from megatron.core.transformer.enums import AttnBackend

    model = config.model
    kind = MLATransformerConfig if model.multi_latent_attention else TransformerConfig
    names = {field.name for field in dataclasses.fields(kind)} - SAID_BY_THE_PATTERN - NOT_ACTED_ON
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
        **low_precision(config),
    }
    if model.num_moe_experts is None:
        # Megatron Core looks at some of these without experts too. The dispatcher has to be one that takes any length.
        fields = {name: value for name, value in fields.items() if not name.startswith("moe_")}
        fields["moe_token_dispatcher_type"] = "alltoall"
    if model.virtual_pipeline_model_parallel_size == 1:
        del fields["virtual_pipeline_model_parallel_size"]  # one chunk a rank is the plain schedule
    if config.dataset.enable_in_batch_packing and model.pipeline_model_parallel_size > 1:
        # Each row is as long as the sequences that fell into it, so stages have to tell each other.
        fields.setdefault("variable_seq_lengths", True)
        if not fields["variable_seq_lengths"]:
            raise RunRefused(
                "model.variable_seq_lengths=false: rows packed in the batch differ in length; leave it out"
            )
    if _is_plain_swiglu(fields) and not uses_transformer_engine():
        fields["use_te_activation_func"] = True  # the name of "take the layer specification's activation", ours here
    if model.recompute_num_layers is not None:
        fields["recompute_num_layers"] = model.recompute_num_layers * LAYERS_PER_BLOCK
    if model.window_attn_skip_freq is not None and model.window_size is not None:
        fields["window_attn_skip_freq"] = [
            int(windowed) for windowed in windowed_blocks(model) for _ in range(LAYERS_PER_BLOCK)
        ]
    if model.multi_latent_attention:
        fields["q_lora_rank"] = model.q_lora_rank  # null is a choice here, and not the class's default
    if not uses_transformer_engine():
        fields["transformer_impl"] = "local"
    built = kind(**fields)
    if model.position_embedding_type == "yarn":
        for name in YARN_FIELDS:  # no fields of the class, but read from it
            setattr(built, name, getattr(model, name))
    return built


SAID_BY_THE_PATTERN = {
    "moe_layer_freq",
    "num_layers_in_first_pipeline_stage",
    "num_layers_in_last_pipeline_stage",
    "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split",
    "pipeline_model_parallel_layout",
}
"""Fields about blocks, which the layer pattern has in it already."""


NOT_ACTED_ON = {path.removeprefix("model.") for path in RECORDED if path.startswith("model.")}
"""Fields that a benchmark recipe brings and this version only records."""


def low_precision(config: ConfigContainer) -> dict[str, Any]:
    """What `TransformerConfig` is told of fp8 and fp4, its layers counted as `HybridModel` counts them.

    Weights stay in 16 bits whatever the section says of gathering: that is recorded only.

    Raises:
        RunRefused: Transformer Engine, which has the kernels, is not there.
    """
    precision = config.mixed_precision
    asked = next((name for name in ("fp8", "fp4") if getattr(precision, name) is not None), None)
    if asked is None:
        return {}
    if not uses_transformer_engine():
        raise RunRefused(
            f"mixed_precision.{asked}={getattr(precision, asked)} needs Transformer Engine, which is not installed; "
            "use mixed_precision=bf16_mixed"
        )
    fields = {name: value for name, value in precision if name.startswith(asked) and "gather" not in name}
    return {
        **{name: value for name, value in fields.items() if value is not None},
        **{name: getattr(precision, name) for name in ("fp8_dot_product_attention", "fp8_multi_head_attention")},
        "first_last_layers_bf16": precision.first_last_layers_bf16,
        "num_layers_at_start_in_bf16": precision.num_layers_at_start_in_bf16 * LAYERS_PER_BLOCK,
        "num_layers_at_end_in_bf16": precision.num_layers_at_end_in_bf16 * LAYERS_PER_BLOCK,
    }


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
    from megatron.core.activations import squared_relu

    # Of two of that name, the one by which Megatron Core knows what it may fuse.
    from megatron.core.fusions.fused_bias_geglu import quick_gelu

    functions: dict[str, Callable[[Any], Any]] = {
        "gelu": F.gelu,
        "silu": F.silu,
        "relu": F.relu,
        "quick_gelu": quick_gelu,
        "squared_relu": squared_relu,
    }
    return functions[name]
