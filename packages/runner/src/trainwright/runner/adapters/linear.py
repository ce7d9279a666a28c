"""What an adapter has to know of a linear layer, be it Megatron Core's, this package's or Transformer Engine's.

Classes are known by their names: Transformer Engine, which has those that begin with TE, need not be installed. With
it nothing here has been run; tests have a layer that looks like its own.
"""

from __future__ import annotations

from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor

from trainwright.runner.errors import RunRefused
from trainwright.runner.models.norm import rms_norm

Split = Literal["rows", "columns"] | None

SPLITS: dict[str, Split] = {
    "ColumnParallelLinear": "rows",
    "TEColumnParallelLinear": "rows",
    "TELayerNormColumnParallelLinear": "rows",
    "RowParallelLinear": "columns",
    "TERowParallelLinear": "columns",
    "WholeLinear": None,
    "TELinear": None,
}
"""Class of a layer -> what of its weight tensor parallel ranks share out."""


def split_of(layer: Any) -> Split:
    """What of the layer's weight ranks share out; null where each has the whole.

    Raises:
        RunRefused: it is a class of layers beside which there are no adapters here.
    """
    for known in type(layer).__mro__:
        if known.__name__ in SPLITS:
            return SPLITS[known.__name__]
    raise RunRefused(
        f"peft: there are no adapters of layers of the class {type(layer).__name__} here; experts in one kernel "
        "(model.moe_grouped_gemm=true) are such, and model.moe_grouped_gemm=false has them one by one"
    )


def is_dispatched(layer: Any) -> bool:
    """Whether a dispatcher of tokens does what the layer would else do to exchange inputs and outputs with ranks."""
    if hasattr(layer, "explicit_expert_comm"):
        return bool(layer.explicit_expert_comm)
    # Transformer Engine's are told that they are not split at all.
    return split_of(layer) is not None and getattr(layer, "parallel_mode", "") is None


def group_of(layer: Any) -> Any:
    """The ranks between which the layer is split; null where each has it whole."""
    if split_of(layer) is None:
        return None
    return layer._tp_group if hasattr(layer, "_tp_group") else layer.tp_group


def sees_a_part_of_the_sequence(layer: Any) -> bool:
    """Whether the layer's input, or the output where its columns are split, is this rank's part of the sequence."""
    whole_on_each = split_of(layer) is None
    return bool(layer.weight.sequence_parallel if whole_on_each else layer.sequence_parallel)


def input_of(layer: Any, x: Tensor) -> Tensor:
    """What the layer multiplies its weight with: x, or where there is a norm in it, what that makes of x."""
    weight = getattr(layer, "layer_norm_weight", None)
    if weight is None:
        return x
    weight = weight + 1 if layer.zero_centered_gamma else weight
    if layer.normalization == "RMSNorm":
        return rms_norm(x, weight, layer.eps)
    return F.layer_norm(x, weight.shape, weight, layer.layer_norm_bias, layer.eps)


def bias_in_output(layer: Any) -> Tensor | None:
    """The bias that the layer adds itself; null where it has none or leaves that to its caller."""
    bias: Tensor | None = getattr(layer, "bias", None)
    if bias is None or not bias.numel():
        return None
    left_to_caller = layer.te_return_bias if hasattr(layer, "te_return_bias") else layer.skip_bias_add
    return None if left_to_caller else bias
