"""Weight gradients added up by the matrix product itself.

Stands for Apex's CUDA extension `fused_weight_gradient_mlp_cuda`, which `model.gradient_accumulation_fusion` calls:
no tensor for the gradient of a micro-batch, and no pass to add it.
"""

from __future__ import annotations

from torch import Tensor


def wgrad_gemm_accum_fp32(total_input: Tensor, grad_output: Tensor, main_grad: Tensor) -> None:
    """Add `grad_output^T @ total_input` to main_grad [out, in]; inputs are [tokens, in] and [tokens, out]."""
    if total_input.dtype == main_grad.dtype:
        main_grad.addmm_(grad_output.t(), total_input)
    else:
        main_grad.add_(grad_output.t() @ total_input)


wgrad_gemm_accum_fp16 = wgrad_gemm_accum_fp32
"""The same for a main_grad of 16 bits."""
