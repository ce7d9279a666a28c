"""An optimizer's settings, which a checkpoint holds beside its state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

KIND = ("wd_mult", "lr_mult", "is_expert_parallel", "is_decoupled_lr")
"""What tells the parameter groups of one optimizer apart."""

STATE = ("params", "step")
"""What of a group is no setting."""


def keep_settings(optimizer: Any, loaded: Any) -> None:
    """Write this run's own settings into the optimizer state dict `loaded`, before the optimizer takes it.

    Megatron Core would go on with the rates and betas of the run that wrote the checkpoint, or find no group for
    another rate.
    """
    own = {_kind(group): group for group in optimizer.param_groups}
    for group in _groups(loaded):
        settings = own.get(_kind(group), {})
        group.update({name: value for name, value in settings.items() if name not in STATE})


def _kind(group: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(group.get(name) for name in KIND)


def _groups(state: Any) -> Iterator[dict[str, Any]]:
    """Every parameter group in it, however deep Megatron Core's wrappers have put them."""
    for name, value in state.items():
        if name == "param_groups":
            yield from value
        elif isinstance(value, dict):
            yield from _groups(value)
