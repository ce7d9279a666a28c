"""What can be known before ranks meet and torch is imported: whether this machine lets the run begin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainwright_trainer.words import UsageError

if TYPE_CHECKING:
    from trainwright.recipes import ResolvedRun
    from trainwright.recipes.config.running import CheckpointConfig


def check(resolved: ResolvedRun, run_dir: Path | None) -> None:
    """Refuse what would be refused later, when a job has waited for its nodes. Writes nothing, imports no torch.

    Raises:
        DataError: the data cannot be used on this machine.
        RunRefused: the run directory, a checkpoint or a package that is asked for cannot be used.
        UsageError: there is nothing where the run is to start from.
    """
    from trainwright.datasets import check_data
    from trainwright.runner import directory
    from trainwright.runner.run import finished
    from trainwright.runner.telemetry import weights_and_biases

    run_dir = directory.locate(resolved, run_dir)
    config = directory.with_paths(resolved.config, run_dir)
    directory.check(run_dir, config)
    if not finished(config):
        check_data(config)
        check_starting_point(config.checkpoint)
        weights_and_biases.require(config)


def check_starting_point(checkpoint: CheckpointConfig) -> None:
    """Refuse a run that is to start from a checkpoint that is not there. One that resumes itself needs none.

    Raises:
        RunRefused: the folder's marker, or the step that is asked for, names a checkpoint that is not there.
        UsageError: there is no checkpoint at all.
    """
    from trainwright.runner.checkpoints.folder import CheckpointFolder

    if CheckpointFolder(Path(str(checkpoint.save))).latest() is not None:
        return
    load, weights = checkpoint.load, checkpoint.pretrained_checkpoint
    if load is not None and CheckpointFolder(Path(load)).find(checkpoint.ckpt_step) is None:
        raise UsageError(
            f"checkpoint.load={load} holds no complete checkpoint; `trainwright-checkpoint list` looks there"
        )
    if weights is not None and not Path(weights).is_dir():
        raise UsageError(f"checkpoint.pretrained_checkpoint={weights} is no directory; name a checkpoint's folder")
