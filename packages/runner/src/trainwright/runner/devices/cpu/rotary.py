"""Rotary position embedding in half the passes over memory.

Megatron Core leaves speed here to fused CUDA kernels; its plain version computes cosines and sines anew for every
query and key, and copies each tensor four times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trainwright.runner.layout import Bounds, held_positions


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


def fast_packed_rotation(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`_apply_rotary_pos_emb_thd` in one turn for all sequences of a row, in the same common case.

    Megatron Core turns one sequence after the other and copies each into place, which costs the backward pass a whole
    row for every sequence.
    """

    def apply(
        t: Tensor,
        cu_seqlens: Tensor,
        freqs: Tensor,
        rotary_interleaved: bool = False,
        mla_rotary_interleaved: bool = False,
        mscale: float = 1.0,
        cp_group: Any = None,
        multi_latent_attention: bool | None = None,
    ) -> Tensor:
        bounds = tuple(cu_seqlens.tolist())
        # Angles for each place of the whole row are another thing, which Megatron Core tells by their number.
        by_place = freqs.size(0) == bounds[-1] and len(bounds) > 2
        other = rotary_interleaved or mla_rotary_interleaved or multi_latent_attention or freqs.size(-1) != t.size(-1)
        if by_place or other:
            return original(
                t, cu_seqlens, freqs, rotary_interleaved, mla_rotary_interleaved, mscale, cp_group,
                multi_latent_attention,
            )  # fmt: skip
        angles = _angles_of_row(freqs, bounds, cp_group.rank(), cp_group.size())
        rotated: Tensor = _Rotate.apply(t.unsqueeze(1), *_cosine_and_sine(angles, mscale, t.dtype))
        return rotated.squeeze(1)

    return apply


def _angles_of_row(freqs: Tensor, bounds: Bounds, rank: int, ranks: int) -> Tensor:
    """Those of each token that a rank holds, [row / ranks, 1, 1, channels]; one tensor for all layers of a row."""
    key = (bounds, rank, ranks)
    latest = freqs.__dict__.get("angles_of_row")
    if latest is None or latest[0] != key:
        latest = freqs.__dict__["angles_of_row"] = key, freqs[held_positions(bounds, rank, ranks)]
    return latest[1]


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
