"""The weights that an adapter was trained beside: where they were, and which they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.runner.errors import RunRefused

if TYPE_CHECKING:
    from trainwright.runner.checkpoints.weights import Weights

BASE = "base"
"""Key, in what a checkpoint of adapters keeps under `trainwright`, of `Base.common`."""


@dataclass(frozen=True)
class Base:
    """A reference to weights that are not in the checkpoint itself."""

    path: str
    """Absolute: a Hugging Face directory or a native checkpoint, of a run the one step."""
    fingerprint: str
    """As `checkpoints.fingerprint` computes it."""

    @classmethod
    def of(cls, weights: Weights, fingerprint: str) -> Base:
        """The reference to `weights`."""
        return cls(str(Path(weights.path).resolve()), fingerprint)

    @classmethod
    def in_common(cls, own: Mapping[str, Any]) -> Base | None:
        """What a checkpoint says, of its common part's `trainwright`; null where it refers to no base."""
        found = own.get(BASE)
        return cls(**found) if found is not None else None

    def common(self) -> dict[str, str]:
        """Plain values for a checkpoint's common part."""
        return asdict(self)


def require_base(wanted: Base, weights: Weights, fingerprint: str, *, of: object) -> None:
    """Find out whether `weights`, of this fingerprint, are what the adapter `of` was trained beside.

    Raises:
        RunRefused: they are others.
    """
    if fingerprint != wanted.fingerprint:
        raise RunRefused(
            f"{of} was trained beside other weights than those of {weights.path}: beside {wanted.path}, fingerprint "
            f"{wanted.fingerprint[:23]}..., and these have {fingerprint[:23]}..."
        )


def require_base_where_needed(checkpoint: Path, recorded: Base | None, pretrained: str | None) -> None:
    """Find out whether a checkpoint of adapters alone has a base, and one of whole weights none.

    Raises:
        RunRefused: it is the other way round.
    """
    if recorded is not None and pretrained is None:
        raise RunRefused(
            f"{checkpoint} holds adapters alone; name their base with checkpoint.pretrained_checkpoint (it was "
            f"{recorded.path})"
        )
    if recorded is None and pretrained is not None:
        raise RunRefused(
            f"{checkpoint} holds whole weights and no adapters of a base; start from it with "
            "checkpoint.pretrained_checkpoint"
        )
