"""Reading a checkpoint, also one that was written at another topology."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from trainwright.recipes import from_yaml, shaping_differences
from trainwright.runner.checkpoints.content import model_state, restore_rng, sharded_state, topology
from trainwright.runner.errors import RunRefused
from trainwright.runner.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.recipes import ConfigContainer
    from trainwright.runner.step import Trainer


def load_checkpoint(trainer: Trainer, path: Path, *, optimizer: bool, rng: bool) -> tuple[Progress, list[str]]:
    """Continue from the checkpoint at `path`: weights, optimizer, schedule, random numbers and counters.

    Returns the counters and what could not be continued, one sentence each. Random number states belong to a topology:
    at another one the generators start from the seed, which changes nothing unless the model has dropout.

    Raises:
        RunRefused: the checkpoint cannot be read, or belongs to another model.
    """
    common = read_common(path)
    remarks = []
    same_topology = common["trainwright"]["topology"] == topology(trainer)
    if rng and not same_topology:
        rng = False
        if trainer.resolved.config.model.hidden_dropout or trainer.resolved.config.model.attention_dropout:
            remarks.append("the topology changed, so dropout draws new random numbers from here on")
    loaded = _fill(sharded_state(trainer, Progress(), loading=True, optimizer=optimizer, rng=rng), path)
    load_weights(trainer, loaded)
    progress = Progress(**common["trainwright"]["progress"])
    if optimizer:
        trainer.optimizer.load_state_dict(loaded["optimizer"])
        trainer.scheduler.load_state_dict(loaded["opt_param_scheduler"])
    else:
        # The schedule belongs to the counters and not to the optimizer's state.
        trainer.optimizer.reload_model_params()
        trainer.scheduler.step(increment=progress.step * trainer.resolved.config.train.global_batch_size)
    if rng:
        restore_rng(loaded["rng_state"])
    return progress, remarks


def refuse_another_configuration(path: Path, config: ConfigContainer) -> None:
    """Find out whether the checkpoint at `path` is of a run that `config` continues.

    Raises:
        RunRefused: it cannot be read, or was written with a configuration that shapes the training otherwise.
    """
    differences = shaping_differences(from_yaml(read_common(path)["trainwright"]["config"]), config)
    if differences:
        raise RunRefused(
            f"{path} belongs to a run with another configuration: {'; '.join(differences)}. "
            "To start from it on purpose, name it with checkpoint.load and save elsewhere"
        )


def load_pretrained(trainer: Trainer, path: Path) -> None:
    """Start from the weights of the checkpoint at `path` and from nothing else of it.

    Raises:
        RunRefused: the checkpoint cannot be read, or belongs to another model.
    """
    read_common(path)
    load_weights(trainer, _fill(model_state(trainer), path))
    trainer.optimizer.reload_model_params()


def read_common(path: Path) -> dict[str, Any]:
    """The part of a checkpoint that is the same for all ranks: counters, topology, schedule.

    Raises:
        RunRefused: there is no readable checkpoint of ours.
    """
    from megatron.core import dist_checkpointing
    from torch.distributed.checkpoint.api import CheckpointException

    try:
        with _without_remarks():
            common = dist_checkpointing.load_common_state_dict(str(path))
    except (Exception, CheckpointException) as error:  # torch derives its own from BaseException
        raise RunRefused(f"{path} is no readable torch_dist checkpoint: {_first_line(error)}") from error
    if "trainwright" not in common:
        raise RunRefused(f"{path} was not written by this runner: its counters are missing")
    return common


def load_weights(trainer: Trainer, loaded: dict[str, Any]) -> None:
    """Put loaded weights into this rank's model chunks."""
    from megatron.core.utils import unwrap_model

    chunks = unwrap_model(trainer.chunks)
    for number, chunk in enumerate(chunks):
        chunk.load_state_dict(loaded["model" if len(chunks) == 1 else f"model{number}"])


def _fill(state: dict[str, Any], path: Path) -> dict[str, Any]:
    from megatron.core import dist_checkpointing
    from torch.distributed.checkpoint.api import CheckpointException

    try:
        with _without_remarks(), torch.no_grad():
            return dist_checkpointing.load(state, str(path))
    except (Exception, CheckpointException) as error:  # torch derives its own from BaseException
        raise RunRefused(f"the checkpoint {path} cannot be loaded into this model: {_first_line(error)}") from error


@contextmanager
def _without_remarks() -> Iterator[None]:
    """Megatron reads the common part with a call that torch remarks on, twice, for no reason of the user's."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"torch\.distributed\.checkpoint\.")
        yield


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
