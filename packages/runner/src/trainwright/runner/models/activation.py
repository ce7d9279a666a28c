"""The activation of a SwiGLU feed-forward part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from megatron.core.transformer import TransformerConfig


class SwiGLU(torch.nn.Module):
    """`silu(gate) * up`, for gate and up side by side in the last dimension.

    What Megatron Core does in Python for every gated activation makes two more passes over its largest activation.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        """[..., 2 * width] to [..., width]."""
        product: Tensor = _SwiGLU.apply(x)
        return product


class _SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        gate, up = x.chunk(2, dim=-1)
        activated = F.silu(gate)
        ctx.save_for_backward(x, activated)
        return activated * up

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        x, activated = ctx.saved_tensors
        gate, up = x.chunk(2, dim=-1)
        both = torch.empty_like(x)
        gate_gradient, up_gradient = both.chunk(2, dim=-1)
        torch.mul(gradients[0], activated, out=up_gradient)
        torch.ops.aten.silu_backward.grad_input(gradients[0] * up, gate, grad_input=gate_gradient)
        return both
