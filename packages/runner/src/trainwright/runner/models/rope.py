"""Frequencies of rotary position embeddings."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trainwright.recipes.config.model import ModelConfig


def inverse_frequencies(model: ModelConfig) -> Tensor:
    """Radians per token of each rotated pair of channels, float32 [rotated channels / 2].

    `base ** (-2i / d)`, from RoFormer (Su et al., 2021). With `rope_scaling` as Llama 3.1 stretches it (its reference
    code, `apply_scaling`): wavelengths longer than `original / low_freq_factor` tokens become `factor` times longer,
    those shorter than `original / high_freq_factor` stay, and in between the two blend linearly in
    `original / wavelength`.
    """
    if model.kv_channels is None:
        raise ValueError("model.kv_channels is not resolved")
    channels = model.kv_channels
    if model.rotary_percent < 1.0:
        channels = int(channels * model.rotary_percent)
    exponents = torch.arange(0, channels, 2, dtype=torch.int64, device="cpu").float() / channels
    frequencies = 1.0 / (model.rotary_base**exponents)
    return _stretch(frequencies, model) if model.rope_scaling else frequencies


def _stretch(frequencies: Tensor, model: ModelConfig) -> Tensor:
    low, high = model.rope_scaling_low_freq_factor, model.rope_scaling_high_freq_factor
    turns = model.rope_scaling_original_max_position_embeddings * frequencies / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / model.rope_scaling_factor)
