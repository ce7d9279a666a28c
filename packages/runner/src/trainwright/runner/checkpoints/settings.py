"""An optimizer's state from a checkpoint whose optimizer is another number of Megatron Core's.

Tensors have names of their own in a checkpoint. What stands beside them (settings, step counts) is laid out as the
optimizer that wrote it: one of Megatron Core's for a dense model, two where experts are split between ranks, and their
parameter groups differ. So a run reads tensors by name into the layout of its own optimizer, with its own settings,
and takes from the other layout what is no setting: how many steps were made, and the loss scale.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

TENSORS, LAYOUT = "optimizer_tensors", "optimizer_layout"


def ready_to_fill(state: dict[str, Any]) -> dict[str, Any]:
    """What `megatron.core.dist_checkpointing` is to load for an optimizer whose sharded state dict is `state`."""
    from megatron.core.dist_checkpointing.mapping import LocalNonpersistentObject

    return {TENSORS: _sharded(state), LAYOUT: LocalNonpersistentObject(state)}


def filled(loaded: dict[str, Any]) -> dict[str, Any]:
    """The optimizer's own state dict, from what was loaded for `ready_to_fill` beside the checkpoint's `optimizer`."""
    state: dict[str, Any] = _filled(loaded[LAYOUT], loaded.get(TENSORS))
    saved = loaded["optimizer"]
    steps = [step for step in _values(saved, "step") if step is not None]
    shared_steps, scales = list(_values(saved, "common_step")), list(_values(saved, "grad_scaler"))
    for part in _parts(state):
        for group in part["param_groups"]:
            if steps and "betas" in group:
                group["step"] = max(steps)
        if shared_steps and any("exp_avg" in tensors for tensors in part.get("state", {}).values()):
            part["state"]["common_step"] = shared_steps[0]
    for holder in _holders(state, "grad_scaler") if scales else ():
        holder["grad_scaler"] = scales[0]
    return state


def _sharded(value: Any) -> Any:
    """Only what is sharded, lists as dictionaries by place; null where there is nothing."""
    from megatron.core.dist_checkpointing.mapping import ShardedBase

    if isinstance(value, dict | list):
        parts = {place: _sharded(each) for place, each in _items(value)}
        return {place: part for place, part in parts.items() if part is not None} or None
    return value if isinstance(value, ShardedBase) else None


def _filled(layout: Any, tensors: Any) -> Any:
    from megatron.core.dist_checkpointing.mapping import LocalNonpersistentObject, ShardedBase

    if isinstance(layout, dict | list):
        parts = {place: _filled(each, (tensors or {}).get(place)) for place, each in _items(layout)}
        return parts if isinstance(layout, dict) else list(parts.values())
    if isinstance(layout, LocalNonpersistentObject):
        return layout.unwrap()
    return tensors if isinstance(layout, ShardedBase) else layout


def _items(value: dict[Any, Any] | list[Any]) -> Iterator[tuple[Any, Any]]:
    yield from value.items() if isinstance(value, dict) else enumerate(value)


def _holders(value: Any, key: str) -> Iterator[dict[str, Any]]:
    """Every dictionary in it that has `key`, however deep Megatron Core's wrappers have put it."""
    if not isinstance(value, dict | list):
        return
    if isinstance(value, dict) and key in value:
        yield value
    for _, each in _items(value):
        yield from _holders(each, key)


def _values(value: Any, key: str) -> Iterator[Any]:
    return (holder[key] for holder in _holders(value, key))


def _parts(state: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The state dicts of torch's optimizers."""
    return _holders(state, "param_groups")
