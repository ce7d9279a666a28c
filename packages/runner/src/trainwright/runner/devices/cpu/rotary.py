"""Rotary position embedding in half the passes over memory.

Megatron Core leaves speed here to fused CUDA kernels; its plain version computes cosines and sines anew for every
query and key, and copies each tensor four times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def fast_rotation(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`_apply_rotary_pos_emb_bshd` for the common case: all channels rotated, in halves. Others go to the original."""

    def apply(
        t: Tensor,
        freqs: Tensor,
        rotary_interleaved: bool = False,
        mla_rotary_interleaved: bool = False,
        mscale: float = 1.0,
        multi_latent_attention: bool | None = None,
    ) -> Tensor:
        if rotary_interleaved or mla_rotary_interleaved or multi_latent_attention or freqs.size(-1) != t.size(-1):
            return original(t, freqs, rotary_interleaved, mla_rotary_interleaved, mscale, multi_latent_attention)
        rotated: Tensor = _Rotate.apply(t, *_cosine_and_sine(freqs, mscale, t.dtype))
        return rotated

    return apply


def _cosine_and_sine(freqs: Tensor, scale: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos [sequence, 1, 1, channels] and sin [..., channels / 2], kept on the angles, one tensor for all layers."""
    key = (scale, dtype)
    kept: dict[Any, tuple[Tensor, Tensor]] = freqs.__dict__.setdefault("cosine_and_sine", {})
    if key not in kept:
        half = freqs[..., : freqs.size(-1) // 2]
        kept[key] = (freqs.cos() * scale).to(dtype), (half.sin() * scale).to(dtype)
    return kept[key]


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        return _rotate(x, cosine, sine)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        cosine, sine = ctx.saved_tensors
        return _rotate(gradients[0], cosine, -sine), None, None  # the inverse turn


def _rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    half = sine.size(-1)
    turned = x * cosine
    turned[..., :half].addcmul_(x[..., half:], sine, value=-1)
    turned[..., half:].addcmul_(x[..., :half], sine)
    return turned
