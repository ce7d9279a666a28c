"""Reading a checkpoint, also one that was written at another topology."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from trainwright.recipes import ConfigError, from_yaml, shaping_differences
from trainwright.runner.checkpoints.content import model_state, restore_rng, sharded_state, topology
from trainwright.runner.checkpoints.folder import CheckpointFolder
from trainwright.runner.checkpoints.settings import filled
from trainwright.runner.errors import RunRefused
from trainwright.runner.failures import first_line
from trainwright.runner.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.recipes import ConfigContainer
    from trainwright.recipes.config.peft import PeftConfig
    from trainwright.runner.step import Trainer


def load_checkpoint(trainer: Trainer, path: Path, *, optimizer: bool, rng: bool) -> tuple[Progress, list[str]]:
    """Continue from the checkpoint at `path`: weights, the optimizer's state, random numbers and counters.

    Learning rate, betas and all other settings are this run's own; at which point of its schedule it is, the counters
    say. Returns the counters and what could not be continued, one sentence each. Random number states belong to a
    topology: at another one the generators start from the seed, which changes nothing unless the model has dropout.

    Raises:
        RunRefused: the checkpoint cannot be read, belongs to another model, or lacks what is asked for.
    """
    common = read_common(path)
    if "progress" not in common["trainwright"]:
        raise RunRefused(f"{path} holds weights alone, of no run; start from it with checkpoint.pretrained_checkpoint")
    written = written_with(path, common)
    require_parts(path, written, trainer.resolved.config, optimizer=optimizer, rng=rng)
    require_same_kind(path, written.peft, trainer.resolved.config.peft)
    remarks = []
    same_topology = common["trainwright"]["topology"] == topology(trainer)
    if rng and not same_topology:
        rng = False
        if has_dropout(trainer.resolved.config):
            remarks.append("the topology changed, so dropout draws new random numbers from here on")
    require_same_weights(path, model_state(trainer))
    loaded = _fill(sharded_state(trainer, Progress(), loading=True, optimizer=optimizer, rng=rng), path)
    load_weights(trainer, loaded)
    progress = Progress(**common["trainwright"]["progress"])
    if optimizer:
        trainer.optimizer.load_state_dict(filled(loaded))
    else:
        trainer.optimizer.reload_model_params()
    trainer.scheduler.step(increment=progress.step * trainer.resolved.config.train.global_batch_size)
    if rng:
        restore_rng(loaded["rng_state"])
    return progress, remarks


def has_dropout(config: ConfigContainer) -> bool:
    """Whether training draws random numbers."""
    adapters = config.peft.dropout if config.peft is not None else 0.0
    return any((config.model.hidden_dropout, config.model.attention_dropout, adapters))


def require_same_kind(path: Path, written: PeftConfig | None, wanted: PeftConfig | None) -> None:
    """Find out whether the adapters at `path` are such as this run has.

    Raises:
        RunRefused: they are of another rank, scale or scheme, or one of the two has none.
    """
    if written is None or wanted is None:
        if written is not wanted:
            holds = "no adapters, and this run trains some" if written is None else "adapters, and this run has none"
            raise RunRefused(f"{path} holds {holds} (peft)")
        return
    for name in ("scheme", "dim", "alpha"):
        # Else the same numbers would be another adapter.
        old, new = getattr(written, name), getattr(wanted, name)
        if old != new:
            raise RunRefused(f"{path} holds adapters with peft.{name}={old}; this run has peft.{name}={new}")


def written_with(path: Path, common: dict[str, Any]) -> ConfigContainer:
    """The configuration of the run that wrote the checkpoint at `path`.

    Raises:
        RunRefused: this version does not know it.
    """
    try:
        return from_yaml(common["trainwright"]["config"])
    except ConfigError as error:
        raise RunRefused(f"{path} was written with a configuration that this version does not know: {error}") from error


def require_parts(path: Path, written: ConfigContainer, wanted: ConfigContainer, *, optimizer: bool, rng: bool) -> None:
    """Find out whether the checkpoint holds what is to be continued from it.

    Raises:
        RunRefused: it does not, in a form that this run can use.
    """
    without = "checkpoint.load_optim=false starts its moments anew"
    if optimizer and not written.checkpoint.save_optim:
        raise RunRefused(f"{path} holds no state of an optimizer; {without}")
    for name in ("optimizer", "use_distributed_optimizer"):
        old, new = getattr(written.optimizer, name), getattr(wanted.optimizer, name)
        if optimizer and old != new:
            raise RunRefused(f"{path} holds the state of optimizer.{name}={old}, of no use with {new}; {without}")
    if rng and not written.checkpoint.save_rng:
        raise RunRefused(
            f"{path} holds no states of random numbers; checkpoint.load_rng=false starts them from the seed"
        )


def refuse_another_configuration(path: Path, config: ConfigContainer) -> None:
    """Find out whether the checkpoint at `path` is of a run that `config` continues.

    Raises:
        RunRefused: it cannot be read, or was written with a configuration that shapes the training otherwise.
    """
    differences = shaping_differences(written_with(path, read_common(path)), config)
    if differences:
        raise RunRefused(
            f"{path} belongs to a run with another configuration: {'; '.join(differences)}. "
            "To start from it on purpose, name it with checkpoint.load and save elsewhere"
        )


def require_same_weights(path: Path, state: dict[str, Any]) -> None:
    """Find out whether the checkpoint holds the weights of this model, no fewer and no more.

    Megatron Core would load the first layers of a deeper model without a word.

    Raises:
        RunRefused: it belongs to another model.
    """
    from megatron.core.dist_checkpointing.dict_utils import nested_values
    from megatron.core.dist_checkpointing.mapping import ShardedTensor, ShardedTensorFactory
    from torch.distributed.checkpoint import FileSystemReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    mine = {part.key for part in nested_values(state) if isinstance(part, ShardedTensor | ShardedTensorFactory)}
    of_ranks: list[set[str]] = [set()] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(of_ranks, mine)
    here = set().union(*of_ranks)
    with refusing(path):
        entries = FileSystemReader(path).read_metadata().state_dict_metadata.items()
    there = {
        name
        for name, entry in entries
        if isinstance(entry, TensorStorageMetadata) and not name.startswith("optimizer.")
    }
    for names, what in ((here - there, "it lacks"), (there - here, "this one has no place for")):
        if names:
            raise RunRefused(f"{path} belongs to another model: {what} {min(names)} ({len(names)} weights in all)")


def read_common(path: Path) -> dict[str, Any]:
    """The part of a checkpoint that is the same for all ranks: counters, topology, schedule.

    Raises:
        RunRefused: there is no readable checkpoint of ours.
    """
    from megatron.core import dist_checkpointing

    with refusing(path):
        if not (path / ".metadata").is_file():
            raise FileNotFoundError("it has no file .metadata")
        common = dist_checkpointing.load_common_state_dict(str(path))
    if "trainwright" not in common:
        raise RunRefused(f"{path} was not written by this runner: its counters are missing")
    return common


def load_weights(trainer: Trainer, loaded: dict[str, Any]) -> None:
    """Put loaded weights into this rank's model chunks."""
    from megatron.core.utils import unwrap_model

    chunks = unwrap_model(trainer.chunks)
    for number, chunk in enumerate(chunks):
        state = loaded.get("model" if len(chunks) == 1 else f"model{number}", {})
        chunk.load_state_dict(state, strict=trainer.base is None)


def _fill(state: dict[str, Any], path: Path) -> dict[str, Any]:
    from megatron.core import dist_checkpointing

    with refusing(path), torch.no_grad():
        return dist_checkpointing.load(state, str(path))


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    from torch.distributed.checkpoint.api import CheckpointException

    try:
        with warnings.catch_warnings():
            # Megatron reads the common part with a call that torch remarks on, twice, for no reason of the user's.
            warnings.filterwarnings("ignore", module=r"torch\.distributed\.checkpoint\.")
            yield
    except (Exception, CheckpointException) as error:  # torch derives its own from BaseException
        folder = CheckpointFolder(path.parent)
        others = [step for step in folder.steps() if folder.complete(step) != path]
        hint = f"; checkpoint.ckpt_step takes another one of {others}" if others else ""
        raise RunRefused(f"the checkpoint {path} cannot be loaded: {first_line(error)}{hint}") from error
