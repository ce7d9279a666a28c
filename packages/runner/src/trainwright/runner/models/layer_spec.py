"""Which module stands where in a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.recipes.config.model import ModelConfig
from trainwright.runner.devices import chosen_device
from trainwright.runner.errors import RunRefused

if TYPE_CHECKING:
    from megatron.core.transformer.spec_utils import ModuleSpec


def stack_spec(model: ModelConfig) -> ModuleSpec:
    """Transformer Engine's layers on a GPU where it is installed, else this package's own.

    Raises:
        RunRefused: a setting that only Transformer Engine's layers know.
    """
    if uses_transformer_engine():
        return _transformer_engine_stack()
    # Megatron Core 0.19 asks Transformer Engine about fp8 there, and compiles an extension at the first use.
    if "layernorm" in ((model.model_extra or {}).get("recompute_modules") or ()):
        raise RunRefused("model.recompute_modules: layernorm needs Transformer Engine; core_attn and mlp do not")
    return _local_stack(qk_layernorm=model.qk_layernorm)


def uses_transformer_engine() -> bool:
    """Whether layers are Transformer Engine's."""
    from megatron.core.extensions.transformer_engine import HAVE_TE

    return bool(HAVE_TE) and chosen_device().kind == "cuda"


def _transformer_engine_stack() -> ModuleSpec:
    """Megatron Core's own choice of layers for a hybrid model."""
    from megatron.core.extensions.transformer_engine import TENorm
    from megatron.core.models.hybrid.hybrid_layer_specs import hybrid_stack_spec
    from megatron.core.transformer.spec_utils import ModuleSpec

    from trainwright.runner.models.stack import Stack

    return ModuleSpec(module=Stack, params={"final_norm": TENorm}, submodules=hybrid_stack_spec.submodules)


def _local_stack(*, qk_layernorm: bool) -> ModuleSpec:
    """Layers of Megatron Core's own linear layers with this package's attention and norm.

    Norms keep, in checkpoints, the names that they have inside Transformer Engine's fused layers: one checkpoint
    serves both.
    """
    from megatron.core.fusions.fused_bias_dropout import get_bias_dropout_add
    from megatron.core.models.hybrid.hybrid_block import HybridStackSubmodules
    from megatron.core.ssm.mlp_layer import MLPLayer
    from megatron.core.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear
    from megatron.core.transformer.attention import SelfAttention, SelfAttentionSubmodules
    from megatron.core.transformer.enums import AttnMaskType
    from megatron.core.transformer.mlp import MLP, MLPSubmodules
    from megatron.core.transformer.spec_utils import ModuleSpec
    from megatron.core.transformer.transformer_layer import TransformerLayer, TransformerLayerSubmodules

    from trainwright.runner.models.activation import SwiGLU
    from trainwright.runner.models.attention import SdpaAttention
    from trainwright.runner.models.norm import Norm
    from trainwright.runner.models.stack import Stack

    head_norm = Norm if qk_layernorm else None
    attention = ModuleSpec(
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
    feed_forward = ModuleSpec(
        module=MLPLayer,
        submodules=TransformerLayerSubmodules(
            pre_mlp_layernorm=Norm,
            mlp=lambda **kwargs: MLP.as_mlp_submodule(
                submodules=MLPSubmodules(
                    linear_fc1=ColumnParallelLinear, linear_fc2=RowParallelLinear, activation_func=SwiGLU
                ),
                **kwargs,
            ),
            mlp_bda=get_bias_dropout_add,
            sharded_state_dict_keys_map={"pre_mlp_layernorm.": "mlp.linear_fc1.layer_norm_"},
        ),
    )
    return ModuleSpec(
        module=Stack,
        params={"final_norm": Norm},
        submodules=HybridStackSubmodules(attention_layer=attention, mlp_layer=feed_forward),
    )
