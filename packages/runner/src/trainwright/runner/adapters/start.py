"""Where an adapter run begins: at its base, which is checked, and at new adapters, given ones or a checkpoint's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from trainwright.runner.adapters.attach import measure
from trainwright.runner.checkpoints.base import Base, require_base
from trainwright.runner.checkpoints.loading import read_common
from trainwright.runner.errors import RunRefused

if TYPE_CHECKING:
    from trainwright.runner.checkpoints.weights import Weights
    from trainwright.runner.step import Trainer


def prepare(trainer: Trainer, checkpoint: Path | None) -> list[str]:
    """Load the frozen weights, and begin with new or given adapters unless `checkpoint` is to be loaded after this.

    Returns what to tell, a line each. Collective: every rank calls it.

    Raises:
        RunRefused: the base or the adapters are not what the checkpoint or the configuration says.
    """
    config = trainer.resolved.config
    recorded = Base.in_common(read_common(checkpoint)["trainwright"]) if checkpoint is not None else None
    pretrained = config.checkpoint.pretrained_checkpoint
    if checkpoint is not None and (recorded is None) != (pretrained is None):
        raise RunRefused(
            f"{checkpoint} holds whole weights, and not the adapters of a base; start from it with "
            "checkpoint.pretrained_checkpoint"
            if recorded is None
            else f"{checkpoint} holds adapters alone; name their base with checkpoint.pretrained_checkpoint "
            f"(it was {recorded.path})"
        )
    remarks = load_base(trainer, Path(pretrained), recorded, of=checkpoint) if pretrained is not None else []
    if checkpoint is None:
        measure(trainer.chunks)
        trainer.optimizer.reload_model_params()
    return remarks


def load_base(trainer: Trainer, path: Path, recorded: Base | None, *, of: Path | None) -> list[str]:
    """Fill the frozen weights, and note which they are; where `of` tells its base, they have to be those."""
    from trainwright.runner.checkpoints.conversion import open_weights
    from trainwright.runner.checkpoints.pretrained import load_pretrained

    step = trainer.resolved.config.checkpoint.ckpt_step
    if recorded is not None and Path(recorded.path).is_relative_to(path.resolve()) and Path(recorded.path).exists():
        path, step = Path(recorded.path), None  # of several steps the one that it was, and not the latest
    weights = open_weights(path, step)
    trainer.base = Base.of(weights, fingerprint_over_ranks(weights))
    if recorded is not None:
        require_base(recorded, weights, trainer.base.fingerprint, of=of)
    return load_pretrained(trainer, path, step)


def fingerprint_over_ranks(weights: Weights) -> str:
    """The weights' fingerprint, for which each rank reads its share. Collective: every rank calls it."""
    from trainwright.runner.checkpoints.fingerprint import combined, digests

    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    shares: list[dict[str, str]] = [{}] * ranks
    torch.distributed.all_gather_object(shares, digests(weights, sorted(weights.held)[rank::ranks]))
    return combined({name: digest for share in shares for name, digest in share.items()})
