"""Kernels written for the CPU against the plain formula, forward and backward."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from trainwright.runner.devices.cpu.rotary import fast_rotation
from trainwright.runner.devices.cpu.weight_gradient import wgrad_gemm_accum_fp32
from trainwright.runner.models.activation import SwiGLU
from trainwright.runner.models.cross_entropy import cross_entropy
from trainwright.runner.models.norm import rms_norm

SIZES = st.integers(1, 5)


def assert_same(ours: Callable[..., Tensor], plain: Callable[..., Tensor], *inputs: Tensor) -> None:
    """Outputs and gradients of both agree; the plain one runs in float64."""
    exact = [x.double().requires_grad_() for x in inputs]
    wanted = plain(*exact)
    direction = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(9))
    wanted.backward(direction.double())
    leaves = [x.clone().requires_grad_() for x in inputs]
    found = ours(*leaves)
    found.backward(direction)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
    for leaf, reference in zip(leaves, exact, strict=True):
        torch.testing.assert_close(leaf.grad.double(), reference.grad, rtol=1e-5, atol=1e-5)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@given(tokens=SIZES, batch=SIZES, width=SIZES, scale=st.sampled_from([1e-3, 1.0, 1e3]))
def test_rms_norm(tokens, batch, width, scale):
    def plain(x: Tensor, weight: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight

    if scale > 1e-3:  # gradients of tiny inputs are as large as 1 / sqrt(eps)
        assert_same(lambda x, w: rms_norm(x, w, 1e-5), plain, numbers(tokens, batch, width) * scale, numbers(width))
    x, weight = numbers(tokens, batch, width) * scale, numbers(width)
    torch.testing.assert_close(rms_norm(x, weight, 1e-5), torch.nn.functional.rms_norm(x, (width,), weight, 1e-5))


def test_rms_norm_of_sixteen_bits_is_torch_own():
    x, weight = numbers(3, 8).bfloat16(), numbers(8).bfloat16()
    assert torch.equal(rms_norm(x, weight, 1e-5), torch.nn.functional.rms_norm(x, (8,), weight, 1e-5))


@given(tokens=SIZES, batch=SIZES, width=SIZES)
def test_swiglu(tokens, batch, width):
    def plain(x: Tensor) -> Tensor:
        gate, up = x[..., :width], x[..., width:]
        return gate / (1 + (-gate).exp()) * up

    assert_same(SwiGLU(None), plain, numbers(tokens, batch, 2 * width) * 3)


@given(tokens=SIZES, batch=SIZES, vocabulary=st.integers(1, 9), spread=st.sampled_from([1.0, 300.0]))
def test_cross_entropy(tokens, batch, vocabulary, spread):
    labels = torch.randint(0, vocabulary, (tokens, batch), generator=torch.Generator().manual_seed(1))

    def plain(logits: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view(
            tokens, batch
        )

    assert_same(lambda x: cross_entropy(x * 1, labels), plain, numbers(tokens, batch, vocabulary) * spread)


def test_cross_entropy_of_sixteen_bits_is_computed_in_float32():
    logits = numbers(2, 1, 8).bfloat16().requires_grad_()
    losses = cross_entropy(logits * 1, torch.zeros(2, 1, dtype=torch.long))
    losses.sum().backward()
    assert (losses.dtype, logits.grad.dtype) == (torch.float32, torch.bfloat16)


def angles(tokens: int, channels: int) -> Tensor:
    half = torch.outer(torch.arange(tokens).float(), 100.0 ** -torch.arange(0, 1, 2 / channels))
    return torch.cat((half, half), dim=-1)[:, None, None, :]


def refuse(*arguments: object) -> Tensor:
    raise AssertionError("the common case went to the original")


@given(tokens=SIZES, batch=SIZES, heads=SIZES, pairs=SIZES, scale=st.sampled_from([1.0, 1.3]))
def test_rotation_turns_each_pair_by_its_angle(tokens, batch, heads, pairs, scale):
    turn = angles(tokens, 2 * pairs)

    def plain(x: Tensor) -> Tensor:
        pair = torch.complex(x[..., :pairs], x[..., pairs:]) * torch.polar(
            torch.full_like(turn[..., :pairs], scale).double(), turn[..., :pairs].double()
        )
        return torch.cat((pair.real, pair.imag), dim=-1)

    assert_same(lambda x: fast_rotation(refuse)(x, turn, mscale=scale), plain, numbers(tokens, batch, heads, 2 * pairs))


def test_rotation_keeps_cosines_for_the_next_layer_and_for_each_type():
    turn, x = angles(4, 8), numbers(4, 1, 2, 8)
    rotate = fast_rotation(refuse)
    first = rotate(x, turn)
    kept = turn.cosine_and_sine
    assert torch.equal(rotate(x, turn), first)
    assert turn.cosine_and_sine is kept and len(kept) == 1
    assert rotate(x.bfloat16(), turn).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("channels", "options"), [(16, {}), (8, {"rotary_interleaved": True}), (8, {"mla_rotary_interleaved": True})]
)
def test_rotation_leaves_uncommon_cases_to_megatron(channels, options):
    calls = []

    def original(*arguments: object) -> Tensor:
        calls.append(arguments)
        return numbers(1)

    fast_rotation(original)(numbers(4, 1, 2, channels), angles(4, 8), **options)
    assert len(calls) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weight_gradients_are_added_to_what_is_there(dtype):
    inputs, gradients, start = numbers(5, 3).to(dtype), numbers(5, 4, seed=1).to(dtype), numbers(4, 3, seed=2)
    total = start.clone()
    wgrad_gemm_accum_fp32(inputs, gradients, total)
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(total, start + gradients.float().T @ inputs.float(), rtol=tolerance, atol=tolerance)
    assert math.isfinite(total.sum().item())
