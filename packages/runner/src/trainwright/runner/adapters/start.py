"""Where an adapter run begins: at its base, which is checked, and at new adapters, given ones or a checkpoint's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from trainwright.runner.adapters.attach import measure
from trainwright.runner.checkpoints.base import Base, require_base, require_base_where_needed
from trainwright.runner.checkpoints.folder import COMPLETE
from trainwright.runner.checkpoints.loading import read_common, require_same_kind
from trainwright.runner.errors import RunRefused

if TYPE_CHECKING:
    from trainwright.recipes.adapters import Linear
    from trainwright.recipes.config.peft import PeftConfig
    from trainwright.runner.checkpoints.weights import Weights
    from trainwright.runner.step import Trainer


def prepare(trainer: Trainer, peft: PeftConfig, checkpoint: Path | None) -> list[str]:
    """Load the frozen weights, and begin with new or given adapters unless `checkpoint` is to be loaded after this.

    Returns what to tell, a line each. Collective: every rank calls it.

    Raises:
        RunRefused: the base or the adapters are not what the checkpoint or the configuration says.
    """
    remarks: list[str] = []
    recorded, pretrained = None, trainer.resolved.config.checkpoint.pretrained_checkpoint
    if checkpoint is not None:
        recorded = Base.in_common(read_common(checkpoint)["trainwright"])
        require_base_where_needed(checkpoint, recorded, pretrained)
    if pretrained is not None:
        remarks += load_base(trainer, Path(pretrained), recorded, of=checkpoint)
    if checkpoint is None:
        measure(trainer.chunks)
        if peft.initial_adapter is not None:
            remarks += load_initial(trainer, peft, Path(peft.initial_adapter))
        trainer.optimizer.reload_model_params()
    return remarks


def load_base(trainer: Trainer, path: Path, recorded: Base | None, *, of: Path | None) -> list[str]:
    """Fill the frozen weights, and note which they are: those that the checkpoint `of` tells, if it does."""
    from trainwright.runner.checkpoints.conversion import open_weights
    from trainwright.runner.checkpoints.pretrained import load_pretrained

    wanted = trainer.resolved.config.checkpoint
    step = wanted.ckpt_step if wanted.load is None else None  # else it is of what is loaded
    if recorded is not None:
        path, step = same_step(path, recorded, step)
    weights = open_weights(path, step)
    trainer.base = Base.of(weights, fingerprint_over_ranks(weights))
    if recorded is not None:
        require_base(recorded, weights, trainer.base.fingerprint, of=of)
    return load_pretrained(trainer, path, step)


def same_step(path: Path, recorded: Base, step: int | None) -> tuple[Path, int | None]:
    """Where in `path` the weights are that a checkpoint recorded: of several steps the one, and not the latest."""
    name = Path(recorded.path).name
    for place in (path / name, path / "checkpoints" / name):
        if name.startswith(COMPLETE) and place.is_dir():
            return place, None
    return path, step


def load_initial(trainer: Trainer, peft: PeftConfig, path: Path) -> list[str]:
    """Fill the adapters with those at `path`, in PEFT's format or of a native checkpoint.

    Raises:
        RunRefused: they are of another base, rank, scale or scheme, or of other layers.
    """
    from megatron.core.utils import unwrap_model

    from trainwright.recipes.adapters import parts_of
    from trainwright.runner.checkpoints.adapter import AdapterWeights
    from trainwright.runner.checkpoints.adapter_conversion import open_adapter
    from trainwright.runner.checkpoints.conversion import open_weights
    from trainwright.runner.checkpoints.pretrained import fill

    if trainer.base is None:
        raise RunRefused(f"peft.initial_adapter={path} needs its base: checkpoint.pretrained_checkpoint")

    def names(linear: Linear) -> tuple[str, ...]:
        return tuple(part.name for part in parts_of(linear, peft))

    weights = open_weights(Path(trainer.base.path))
    adapter = open_adapter(path, weights, parts_of=names)
    require_same_kind(path, adapter.peft, peft)
    if adapter.base is not None:
        require_base(adapter.base, weights, trainer.base.fingerprint, of=path)
    fill(unwrap_model(trainer.chunks), AdapterWeights(adapter), adapters=True)
    return [f"adapters from {adapter.path} ({adapter.kind})", *adapter.remarks]


def fingerprint_over_ranks(weights: Weights) -> str:
    """The weights' fingerprint, for which each rank reads its share. Collective: every rank calls it."""
    from trainwright.runner.checkpoints.fingerprint import combined, digests

    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    shares: list[dict[str, str]] = [{}] * ranks
    torch.distributed.all_gather_object(shares, digests(weights, sorted(weights.held)[rank::ranks]))
    return combined({name: digest for share in shares for name, digest in share.items()})
