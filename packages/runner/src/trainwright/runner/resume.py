"""Where a session of a run begins: at its own checkpoint, at another run's, at given weights, or afresh."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.runner import preflight
from trainwright.runner.checkpoints.folder import CheckpointFolder
from trainwright.runner.checkpoints.loading import load_checkpoint, load_pretrained, refuse_another_configuration
from trainwright.runner.errors import RunRefused
from trainwright.runner.progress import Progress

if TYPE_CHECKING:
    from trainwright.runner.step import Trainer


def restore(trainer: Trainer) -> tuple[Progress, list[str]]:
    """Continue this run's latest checkpoint, else what `checkpoint.load` names, else start from weights or afresh.

    Returns the counters, and what to tell about them, a line each.

    Raises:
        RunRefused: a checkpoint that was asked for is not there or does not fit.
    """
    wanted = trainer.resolved.config.checkpoint
    folder, step = CheckpointFolder(Path(str(wanted.save))), preflight.own_step(wanted)
    optimizer, rng = wanted.load_optim, wanted.load_rng
    if step is not None:
        refuse_another_configuration(folder.complete(step), trainer.resolved.config)
        if not preflight.is_for_own(wanted):
            # What to load and what not was said of the other run; this one continues all that it has saved.
            optimizer, rng = wanted.save_optim, wanted.save_rng
    elif wanted.load is not None:
        folder = CheckpointFolder(Path(wanted.load))
        step = folder.find(wanted.ckpt_step)
        if step is None:
            raise RunRefused(f"checkpoint.load={wanted.load} holds no complete checkpoint")
    if step is not None:
        progress, remarks = load_checkpoint(trainer, folder.complete(step), optimizer=optimizer, rng=rng)
        return progress, [f"continuing from {folder.complete(step)}", *remarks]
    if wanted.pretrained_checkpoint is not None:
        folder = CheckpointFolder(Path(wanted.pretrained_checkpoint))
        step = folder.find(wanted.ckpt_step)
        load_pretrained(trainer, folder.path if step is None else folder.complete(step))
    return Progress(), []
