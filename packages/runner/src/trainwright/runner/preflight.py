"""What can be known before ranks meet and torch is imported: whether this machine lets the run begin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.recipes.carried import why_refused
from trainwright.runner import directory
from trainwright.runner.checkpoints.folder import CheckpointFolder
from trainwright.runner.errors import RunRefused

if TYPE_CHECKING:
    from trainwright.recipes import ConfigContainer
    from trainwright.recipes.config.peft import PeftConfig
    from trainwright.recipes.config.running import CheckpointConfig


def check(config: ConfigContainer, run_dir: Path, *, only_look: bool = False) -> bool:
    """Refuse what would be refused later, when a job has waited for its nodes. Writes nothing, imports no torch.

    `config` has its paths filled in (`directory.with_paths`). `only_look`: a dry run, which may look at what no run
    starts with. Returns whether there is anything left to train.

    Raises:
        RunRefused: the run directory, the data, a checkpoint or a package that is asked for cannot be used.
    """
    from trainwright.datasets import check_data
    from trainwright.runner.telemetry import weights_and_biases

    if not only_look and (refusal := why_refused(config)) is not None:
        raise RunRefused(refusal)
    directory.check(run_dir, config)
    if finished(config):
        return False
    check_data(config)
    check_starting_point(config)
    directory.require_writable(Path(str(config.checkpoint.save)), "the checkpoint folder", "checkpoint.save")
    weights_and_biases.require(config)
    return True


def finished(config: ConfigContainer) -> bool:
    """Whether the checkpoint that this run would continue from is its last one."""
    step = own_step(config.checkpoint)
    return step is not None and step >= config.train.train_iters


def own_step(checkpoint: CheckpointConfig) -> int | None:
    """Which of this run's own checkpoints to continue: `checkpoint.ckpt_step`, unless that is for another folder.

    Raises:
        RunRefused: it is not there.
    """
    step = checkpoint.ckpt_step if is_for_own(checkpoint) else None
    return CheckpointFolder(Path(str(checkpoint.save))).find(step)


def is_for_own(checkpoint: CheckpointConfig) -> bool:
    """Whether what the section says about loading is about this run's own checkpoints, and not another folder's."""
    return checkpoint.load is None and checkpoint.pretrained_checkpoint is None


def check_starting_point(config: ConfigContainer) -> None:
    """Refuse a run that is to start from a checkpoint that is not there. One that resumes itself needs none.

    Raises:
        RunRefused: there is none, or not the one that the folder's marker or `checkpoint.ckpt_step` names, or it
            leaves nothing to train.
    """
    checkpoint, updates = config.checkpoint, config.train.train_iters
    if config.peft is not None:
        check_adapters(config, config.peft)
    if own_step(checkpoint) is not None:
        return
    load, weights = checkpoint.load, checkpoint.pretrained_checkpoint
    if load is not None:
        step = CheckpointFolder(Path(load)).find(checkpoint.ckpt_step)
        if step is None:
            raise RunRefused(
                f"checkpoint.load={load} holds no complete checkpoint; `trainwright-checkpoint list` looks there"
            )
        if step >= updates:
            raise RunRefused(
                f"checkpoint.load={load} stands at update {step} of train.train_iters={updates}: nothing is left to "
                "train; ask for more updates, or take the weights alone with checkpoint.pretrained_checkpoint"
            )
    elif weights is not None:
        check_weights(Path(weights), checkpoint.ckpt_step)


def check_adapters(config: ConfigContainer, peft: PeftConfig) -> None:
    """Refuse adapters whose base is not there: it is loaded at every start, and nothing of it is in a checkpoint.

    Raises:
        RunRefused: so it is, or the adapter to begin with is not there.
    """
    weights, adapter = config.checkpoint.pretrained_checkpoint, peft.initial_adapter
    if weights is not None:
        check_weights(Path(weights), None)
    if adapter is not None and weights is None:
        raise RunRefused(f"peft.initial_adapter={adapter} needs its base: checkpoint.pretrained_checkpoint")
    if adapter is not None and not Path(adapter).is_dir():
        raise RunRefused(f"peft.initial_adapter={adapter} is no directory; name one in PEFT's format or a checkpoint")


def check_weights(path: Path, step: int | None) -> None:
    """Refuse weights that are not there or of which parts are missing; no tensor is read.

    Raises:
        RunRefused: so it is.
    """
    from trainwright.runner.checkpoints.conversion import native_place
    from trainwright.runner.huggingface.families import family_of_folder
    from trainwright.runner.huggingface.folder import HuggingFaceFolder, is_huggingface

    if not path.is_dir():
        raise RunRefused(
            f"checkpoint.pretrained_checkpoint={path} is no directory; name a Hugging Face directory or a checkpoint's "
            "folder"
        )
    if is_huggingface(path):
        family_of_folder(HuggingFaceFolder(path))
    elif native_place(path, step) is None:
        raise RunRefused(
            f"checkpoint.pretrained_checkpoint={path} holds no checkpoint: neither config.json with safetensors files "
            "nor a complete native one"
        )
