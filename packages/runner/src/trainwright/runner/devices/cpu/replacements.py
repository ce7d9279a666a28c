"""Names of Megatron Core's modules that get another object on the CPU, each with its reason."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

import torch

from trainwright.runner.devices.cpu import rng, uneven, weight_gradient
from trainwright.runner.devices.cpu.adam import GroupStepAdam
from trainwright.runner.devices.cpu.rotary import fast_packed_rotation, fast_rotation


def _scale(chunk_size: int, noop_flag: Any, tensor_lists: list[list[torch.Tensor]], scale: float) -> None:
    """Gradients times a number, in place where source and target are one; Megatron Core makes a copy of them all."""
    for source, target in zip(*tensor_lists, strict=True):
        torch.mul(source, scale, out=target)


def _move_counts_to_host(original: Callable[..., Any]) -> Callable[..., Any]:
    """The all-to-all dispatcher hands its split sizes to gloo, which takes lists and NumPy arrays, not tensors."""

    def to_host(tensor: Any, as_numpy: bool = False, *args: Any, **kwargs: Any) -> Any:
        if as_numpy and isinstance(tensor, torch.Tensor):
            return tensor.numpy()
        return original(tensor, as_numpy, *args, **kwargs)

    return to_host


def _send_weights_one_by_one(layer_wise: Any) -> Any:
    """Ranks that share matrices out gather parts of unequal size, which gloo cannot; sending each does the same."""
    layer_wise.allgather_params = layer_wise.broadcast_params
    return layer_wise


REPLACEMENTS: dict[str, dict[str, Callable[[Any], Any]]] = {
    # One generator serves as "the GPU's"; see rng.
    "megatron.core.tensor_parallel.random": {
        "_get_cuda_rng_state": lambda _: rng.get_state,
        "_set_cuda_rng_state": lambda _: rng.set_state,
        "CudaRNGStatesTracker": rng.states_tracker,
    },
    # Without Apex or Transformer Engine a checkpoint of the distributed optimizer does not load; see adam.
    "megatron.core.optimizer": {
        "Adam": lambda _: GroupStepAdam,
        "USING_PYTORCH_OPTIMIZER": lambda _: False,
    },
    "megatron.core.optimizer.distrib_optimizer": {
        "Adam": lambda _: GroupStepAdam,
        "HAVE_APEX_OR_TE": lambda _: True,
        "USING_APEX_OPTIMIZER": lambda _: True,
    },
    "megatron.core.optimizer.layer_wise_optimizer": {"LayerWiseDistributedOptimizer": _send_weights_one_by_one},
    "megatron.core.optimizer.clip_grads": {"multi_tensor_scale_impl": lambda _: _scale},
    "megatron.core.models.common.embeddings.rope_utils": {
        "_apply_rotary_pos_emb_bshd": fast_rotation,
        "_apply_rotary_pos_emb_thd": fast_packed_rotation,
    },
    "megatron.core.transformer.moe.moe_utils": {"maybe_move_tensor_to_cpu": _move_counts_to_host},
    # Parts of different lengths; see uneven.
    "megatron.core.tensor_parallel.mappings": {
        "_gather_along_first_dim": uneven.gather,
        "_reduce_scatter_along_first_dim": uneven.reduce_scatter,
    },
    "megatron.core.tensor_parallel.layers": {
        "fused_weight_gradient_mlp_cuda": lambda _: weight_gradient,
        "_grad_accum_fusion_available": lambda _: True,
    },
    # See results_queue.
    "megatron.core.dist_checkpointing.strategies.filesystem_async": {"_results_queue": lambda _: queue.Queue()},
}
"""Module, name, and what makes the replacement from the original."""

ONLY_WITH_APEX = ("fused_weight_gradient_mlp_cuda",)
"""Names that a module lacks where an optional package is missing; their original is then None."""
