"""Where a session of a run begins: at its own checkpoint, at another run's, at given weights, or afresh."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.runner import preflight
from trainwright.runner.adapters.start import prepare
from trainwright.runner.checkpoints.folder import CheckpointFolder
from trainwright.runner.checkpoints.loading import load_checkpoint, refuse_another_configuration
from trainwright.runner.checkpoints.pretrained import load_pretrained
from trainwright.runner.errors import RunRefused
from trainwright.runner.progress import Progress

if TYPE_CHECKING:
    from trainwright.recipes.config.running import CheckpointConfig
    from trainwright.runner.step import Trainer


def same_data(progress: Progress, digest: str | None, checkpoint: CheckpointConfig) -> list[str]:
    """Note which rows are trained on, and find out whether they are those that the checkpoint was trained on.

    Returns what to tell where they are not and need not be: after the start from another run's checkpoint.

    Raises:
        RunRefused: this run's own rows have changed, so that it cannot go on where it was.
    """
    before, progress.data = progress.data, digest
    if before is None or digest is None or before == digest:
        return []
    if preflight.own_step(checkpoint) is None:
        return ["the rows are not those that the checkpoint was trained on; they are read from where it stood"]
    raise RunRefused(
        "the training rows, their packing or the tokenizer are not what this run began with. Bring them back, or start "
        f"a new run: another --run-dir, and checkpoint.load={checkpoint.save}"
    )


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
    path = folder.complete(step) if step is not None else None
    peft = trainer.resolved.config.peft
    before = prepare(trainer, peft, path) if peft is not None else []
    if path is not None:
        progress, remarks = load_checkpoint(trainer, path, optimizer=optimizer, rng=rng)
        return progress, [*before, f"continuing from {path}", *remarks]
    if peft is not None:
        return Progress(), before
    if wanted.pretrained_checkpoint is not None:
        return Progress(), load_pretrained(trainer, Path(wanted.pretrained_checkpoint), wanted.ckpt_step)
    return Progress(), []
