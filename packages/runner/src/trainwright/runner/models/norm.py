"""Layer normalization on torch's kernels, with the mark that sequence parallelism needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

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

    def _parameter(self, fill, config: TransformerConfig) -> torch.nn.Parameter:  # type: ignore[no-untyped-def]
        device = "cpu" if config.use_cpu_initialization else torch.get_default_device()
        parameter = torch.nn.Parameter(fill(self.shape, dtype=config.params_dtype, device=device))
        parameter.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]
        return parameter

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalize x of shape [..., hidden_size]."""
        weight = self.weight + 1 if self.zero_centered else self.weight
        if self.bias is None:
            return F.rms_norm(x, self.shape, weight, self.eps)
        return F.layer_norm(x, self.shape, weight, self.bias, self.eps)
