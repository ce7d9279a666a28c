"""Which module stands where in a layer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from trainwright.recipes.config.model import ModelConfig
from trainwright.runner.devices import chosen_device
from trainwright.runner.errors import RunRefused

if TYPE_CHECKING:
    from megatron.core.transformer.mlp import MLPSubmodules
    from megatron.core.transformer.spec_utils import ModuleSpec


def stack_spec(model: ModelConfig) -> ModuleSpec:
    """Transformer Engine's layers on a GPU where it is installed, else this package's own.

    Raises:
        RunRefused: a setting that only Transformer Engine's layers know.
    """
    if uses_transformer_engine():
        return _transformer_engine_stack(model)
    for name in ("moe_grouped_gemm", "moe_permute_fusion", "moe_router_fusion", "moe_shared_expert_overlap"):
        if model.num_moe_experts is not None and getattr(model, name):
            raise RunRefused(f"model.{name}=true needs Transformer Engine, which is not installed; leave it out")
    # Megatron Core 0.19 asks Transformer Engine about fp8 there, and compiles an extension at the first use.
    if "layernorm" in ((model.model_extra or {}).get("recompute_modules") or ()):
        raise RunRefused("model.recompute_modules: layernorm needs Transformer Engine; core_attn and mlp do not")
    return _local_stack(model)


def uses_transformer_engine() -> bool:
    """Whether layers are Transformer Engine's."""
    from megatron.core.extensions.transformer_engine import HAVE_TE

    return bool(HAVE_TE) and chosen_device().kind == "cuda"


def _transformer_engine_stack(model: ModelConfig) -> ModuleSpec:
    """Megatron Core's own choice of layers for a hybrid model, its experts one by one or in one kernel as asked."""
    from dataclasses import replace

    from megatron.core.extensions.transformer_engine import TENorm
    from megatron.core.models.gpt.moe_module_specs import get_moe_module_spec
    from megatron.core.models.hybrid.hybrid_layer_specs import hybrid_stack_spec
    from megatron.core.transformer.spec_utils import ModuleSpec

    from trainwright.runner.models.latent_attention import TransformerEngineLatentAttention
    from trainwright.runner.models.stack import Stack

    layers = hybrid_stack_spec.submodules
    latent = layers.mla_layer.submodules
    attention = replace(latent.self_attention, module=TransformerEngineLatentAttention)
    mla = replace(layers.mla_layer, submodules=replace(latent, self_attention=attention))
    layers = replace(layers, mla_layer=mla)
    if model.num_moe_experts is not None:
        experts = get_moe_module_spec(
            use_te=True, num_experts=model.num_moe_experts, moe_grouped_gemm=model.moe_grouped_gemm
        )
        moe = replace(layers.moe_layer, submodules=replace(layers.moe_layer.submodules, mlp=experts))
        layers = replace(layers, moe_layer=moe)
    return ModuleSpec(module=Stack, params={"final_norm": TENorm}, submodules=layers)


def _local_stack(model: ModelConfig) -> ModuleSpec:
    """Layers of Megatron Core's own linear layers with this package's attention and norm.

    Norms keep, in checkpoints, the names that they have inside Transformer Engine's fused layers: one checkpoint
    serves both.
    """
    from megatron.core.models.hybrid.hybrid_block import HybridStackSubmodules
    from megatron.core.transformer.spec_utils import ModuleSpec

    from trainwright.runner.models.norm import Norm
    from trainwright.runner.models.stack import Stack

    return ModuleSpec(
        module=Stack,
        params={"final_norm": Norm},
        submodules=HybridStackSubmodules(
            attention_layer=_attention(qk_layernorm=model.qk_layernorm),
            mla_layer=_latent_attention(qk_layernorm=model.qk_layernorm),
            mlp_layer=_feed_forward(),
            moe_layer=_experts(),
            mtp_block_spec=_further_predictions(),
        ),
    )


def _attention(*, qk_layernorm: bool) -> ModuleSpec:
    from megatron.core.fusions.fused_bias_dropout import get_bias_dropout_add
    from megatron.core.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear
    from megatron.core.transformer.attention import SelfAttention, SelfAttentionSubmodules
    from megatron.core.transformer.enums import AttnMaskType
    from megatron.core.transformer.spec_utils import ModuleSpec
    from megatron.core.transformer.transformer_layer import TransformerLayer, TransformerLayerSubmodules

    from trainwright.runner.models.attention import SdpaAttention
    from trainwright.runner.models.norm import Norm

    head_norm = Norm if qk_layernorm else None
    return ModuleSpec(
        module=TransformerLayer,
        submodules=TransformerLayerSubmodules(
            input_layernorm=Norm,
            self_attention=ModuleSpec(
                module=SelfAttention,
                params={"attn_mask_type": AttnMaskType.causal},
                submodules=SelfAttentionSubmodules(
                    linear_qkv=ColumnParallelLinear,
                    core_attention=SdpaAttention,
                    linear_proj=RowParallelLinear,
                    q_layernorm=head_norm,
                    k_layernorm=head_norm,
                ),
            ),
            self_attn_bda=get_bias_dropout_add,
            sharded_state_dict_keys_map={"input_layernorm.": "self_attention.linear_qkv.layer_norm_"},
        ),
    )


def _latent_attention(*, qk_layernorm: bool) -> ModuleSpec:
    from megatron.core.fusions.fused_bias_dropout import get_bias_dropout_add
    from megatron.core.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear
    from megatron.core.transformer.enums import AttnMaskType
    from megatron.core.transformer.identity_op import IdentityOp
    from megatron.core.transformer.multi_latent_attention import MLASelfAttentionSubmodules
    from megatron.core.transformer.spec_utils import ModuleSpec
    from megatron.core.transformer.transformer_layer import TransformerLayer, TransformerLayerSubmodules

    from trainwright.runner.models.attention import SdpaAttention
    from trainwright.runner.models.latent_attention import LatentAttention, LatentNorm
    from trainwright.runner.models.norm import Norm

    latent_norm = LatentNorm if qk_layernorm else IdentityOp
    return ModuleSpec(
        module=TransformerLayer,
        submodules=TransformerLayerSubmodules(
            input_layernorm=Norm,
            self_attention=ModuleSpec(
                module=LatentAttention,
                params={"attn_mask_type": AttnMaskType.causal},
                submodules=MLASelfAttentionSubmodules(
                    linear_q_proj=ColumnParallelLinear,
                    linear_q_down_proj=ColumnParallelLinear,  # not for long, see LatentAttention
                    linear_q_up_proj=ColumnParallelLinear,
                    linear_kv_down_proj=ColumnParallelLinear,
                    linear_kv_up_proj=ColumnParallelLinear,
                    core_attention=SdpaAttention,
                    linear_proj=RowParallelLinear,
                    q_layernorm=latent_norm,
                    kv_layernorm=latent_norm,
                ),
            ),
            self_attn_bda=get_bias_dropout_add,
        ),
    )


def _linear_layers() -> MLPSubmodules:
    """The two linear layers of a feed-forward part and what is between them."""
    from megatron.core.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear
    from megatron.core.transformer.mlp import MLPSubmodules

    from trainwright.runner.models.activation import SwiGLU

    return MLPSubmodules(linear_fc1=ColumnParallelLinear, linear_fc2=RowParallelLinear, activation_func=SwiGLU)


def _feed_forward() -> ModuleSpec:
    from megatron.core.fusions.fused_bias_dropout import get_bias_dropout_add
    from megatron.core.ssm.mlp_layer import MLPLayer
    from megatron.core.transformer.mlp import MLP
    from megatron.core.transformer.spec_utils import ModuleSpec
    from megatron.core.transformer.transformer_layer import TransformerLayerSubmodules

    from trainwright.runner.models.norm import Norm

    return ModuleSpec(
        module=MLPLayer,
        submodules=TransformerLayerSubmodules(
            pre_mlp_layernorm=Norm,
            mlp=lambda **kwargs: MLP.as_mlp_submodule(submodules=_linear_layers(), **kwargs),
            mlp_bda=get_bias_dropout_add,
            sharded_state_dict_keys_map={"pre_mlp_layernorm.": "mlp.linear_fc1.layer_norm_"},
        ),
    )


def _experts() -> ModuleSpec:
    """Experts one after the other: torch has no kernel for all of them at once on a CPU."""
    from megatron.core.fusions.fused_bias_dropout import get_bias_dropout_add
    from megatron.core.tensor_parallel.layers import ColumnParallelLinear
    from megatron.core.transformer.mlp import MLPSubmodules
    from megatron.core.transformer.moe.experts import SequentialMLP
    from megatron.core.transformer.moe.moe_layer import MoELayer, MoESubmodules
    from megatron.core.transformer.moe.shared_experts import SharedExpertMLP
    from megatron.core.transformer.spec_utils import ModuleSpec
    from megatron.core.transformer.transformer_layer import MoETransformerLayer, TransformerLayerSubmodules

    from trainwright.runner.models.activation import SwiGLU
    from trainwright.runner.models.expert_linear import ExpertRowParallelLinear
    from trainwright.runner.models.norm import Norm

    expert = MLPSubmodules(linear_fc1=ColumnParallelLinear, linear_fc2=ExpertRowParallelLinear, activation_func=SwiGLU)
    experts = MoESubmodules(
        experts=partial(SequentialMLP, submodules=expert),
        shared_experts=partial(SharedExpertMLP, submodules=_linear_layers()),
    )
    return ModuleSpec(
        module=MoETransformerLayer,
        submodules=TransformerLayerSubmodules(
            pre_mlp_layernorm=Norm, mlp=partial(MoELayer, submodules=experts), mlp_bda=get_bias_dropout_add
        ),
    )


def _further_predictions() -> ModuleSpec:
    """Norms and a matrix around the block that predicts one token further ahead."""
    from megatron.core.tensor_parallel.layers import ColumnParallelLinear
    from megatron.core.transformer.multi_token_prediction import (
        MultiTokenPredictionBlock,
        MultiTokenPredictionBlockSubmodules,
        MultiTokenPredictionLayer,
        MultiTokenPredictionLayerSubmodules,
    )
    from megatron.core.transformer.spec_utils import ModuleSpec

    from trainwright.runner.models.norm import Norm

    depth = MultiTokenPredictionLayerSubmodules(enorm=Norm, hnorm=Norm, eh_proj=ColumnParallelLinear, layer_norm=Norm)
    return ModuleSpec(
        module=MultiTokenPredictionBlock,
        submodules=MultiTokenPredictionBlockSubmodules(
            layer_specs=[ModuleSpec(module=MultiTokenPredictionLayer, submodules=depth)]
        ),
    )
