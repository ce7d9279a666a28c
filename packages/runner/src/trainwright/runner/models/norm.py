"""Layer normalization on torch's kernels, with the mark that sequence parallelism needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from megatron.core.transformer import TransformerConfig


class Norm(torch.nn.Module):
    """LayerNorm or RMSNorm over the last dimension, as `config.normalization` says.

    Under sequence parallelism each tensor parallel rank sees a part of the sequence, so the gradients of these
    parameters are partial sums; `sequence_parallel` on a parameter tells Megatron Core to add them up.
    """

    def __init__(self, config: TransformerConfig, hidden_size: int, eps: float) -> None:
        super().__init__()
        self.shape = (hidden_size,)
        self.eps = eps
        self.zero_centered = config.layernorm_zero_centered_gamma
        fill = torch.zeros if self.zero_centered else torch.ones
        self.weight = self._parameter(fill, config)
        self.bias = self._parameter(torch.zeros, config) if config.normalization == "LayerNorm" else None

    def _parameter(self, fill: Callable[..., Tensor], config: TransformerConfig) -> torch.nn.Parameter:
        device = "cpu" if config.use_cpu_initialization else torch.get_default_device()
        parameter = torch.nn.Parameter(fill(self.shape, dtype=config.params_dtype, device=device))
        parameter.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]
        return parameter

    def forward(self, x: Tensor) -> Tensor:
        """Normalize x of shape [..., hidden_size]."""
        weight = self.weight + 1 if self.zero_centered else self.weight
        if self.bias is None:
            return rms_norm(x, weight, self.eps)
        return F.layer_norm(x, self.shape, weight, self.bias, self.eps)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension.

    torch has one kernel for it on GPUs. On a CPU it is made of ten operations, forward and backward; here are fewer.
    """
    if x.is_cuda or x.dtype != torch.float32:
        return F.rms_norm(x, weight.shape, weight, eps)
    normalized: Tensor = _RMSNorm.apply(x, weight, eps)
    return normalized


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = norm.square_().div_(x.size(-1)).add_(eps).rsqrt_()
        unit = x * scale
        ctx.save_for_backward(unit, scale, weight)
        return unit * weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        unit, scale, weight = ctx.saved_tensors
        weight_gradient = (gradients[0] * unit).flatten(0, -2).sum(0)
        direction = gradients[0] * weight
        along = torch.linalg.vecdot(direction, unit).unsqueeze(-1).div_(unit.size(-1))
        return direction.addcmul_(unit, along, value=-1).mul_(scale), weight_gradient, None
