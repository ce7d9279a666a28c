"""Adapters in checkpoints: which part of each parameter a rank holds."""

from __future__ import annotations

from typing import Any

from trainwright.runner.adapters.linear import group_of, split_of

MARK = ".adapter."
"""What names of adapters' parameters have in them, and no others."""


def is_of_adapter(name: str) -> bool:
    """Whether the parameter of this name, in a chunk or in a checkpoint, belongs to an adapter."""
    return MARK in name


def shard_with_adapter(layer: Any, *, halves: tuple[str, ...]) -> None:
    """Let the layer's sharded state dict tell of its adapter.

    Megatron Core's layers would take what they do not know for whole on every rank. `halves` are parts whose rows are
    those of a gate and then as many others, of which each rank has a part of both.
    """
    if split_of(layer) is None:
        return  # the layer is whole on every rank, and so is its adapter
    own = layer.sharded_state_dict

    def sharded_state_dict(prefix: str = "", sharded_offsets: Any = (), metadata: Any = None) -> dict[str, Any]:
        state: dict[str, Any] = own(prefix, sharded_offsets, metadata)
        return state | _of_adapter(layer, f"{prefix}adapter.", sharded_offsets, metadata, halves)

    layer.sharded_state_dict = sharded_state_dict


def _of_adapter(layer: Any, prefix: str, offsets: Any, metadata: Any, halves: tuple[str, ...]) -> dict[str, Any]:
    from megatron.core.transformer.mlp import apply_swiglu_sharded_factory
    from megatron.core.transformer.utils import make_sharded_tensors_for_checkpoint

    way, groups = layer.adapter.way, {"tp_group": group_of(layer), "dp_cp_group": metadata["dp_cp_group"]}
    split = {"lora_a": way.lora_a, "lora_b": way.lora_b, "magnitude": way.lora_b}
    state: dict[str, Any] = {}
    for name in layer.adapter.names:
        tensors = layer.adapter.part(name).state_dict(prefix="", keep_vars=True)
        axes = {kind: axis for kind, axis in split.items() if axis is not None}
        made = make_sharded_tensors_for_checkpoint(tensors, f"{prefix}{name}.", axes, offsets, **groups)
        for key, tensor in made.items():
            if name in halves and not key.endswith("lora_a"):
                made[key] = apply_swiglu_sharded_factory(
                    tensor, offsets, tp_group=groups["tp_group"], dp_group=groups["dp_cp_group"]
                )
        state |= made
    return state
