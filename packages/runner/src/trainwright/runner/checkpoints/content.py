"""What a checkpoint holds: the sharded state of model, optimizer and random numbers, and the common rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from trainwright.recipes import to_yaml
from trainwright.runner.adapters.sharding import is_of_adapter
from trainwright.runner.checkpoints.base import BASE
from trainwright.runner.checkpoints.settings import ready_to_fill

if TYPE_CHECKING:
    from trainwright.runner.progress import Progress
    from trainwright.runner.step import Trainer

# Optimizer state in this form can be loaded at another topology; plain keys let EP and non-EP checkpoints share names.
CONTENT = {"distrib_optim_sharding_type": "fully_reshardable", "chained_optim_avoid_prefix": True}


def sharded_state(trainer: Trainer, progress: Progress, *, loading: bool, optimizer: bool, rng: bool) -> dict[str, Any]:
    """The state dict that `megatron.core.dist_checkpointing` saves, or fills when `loading`.

    Keys are those of Megatron-LM's checkpoints: `model` (or `model0`, `model1` ... for the chunks of an interleaved
    pipeline), `optimizer`, `opt_param_scheduler`, `rng_state`; and `trainwright`: counters, topology, configuration.
    The optimizer's is loaded by `settings.ready_to_fill`, for it may have been written by another number of optimizers.
    """
    from megatron.core.utils import unwrap_model

    models = model_state(trainer)
    state: dict[str, Any] = dict(models)
    if optimizer:
        if loading and trainer.resolved.config.optimizer.optimizer == "sgd":
            make_momentum(trainer.optimizer)
        own = trainer.optimizer.sharded_state_dict(models, is_loading=loading, metadata=dict(CONTENT))
        state |= ready_to_fill(own) if loading else {"optimizer": own}
        state["opt_param_scheduler"] = trainer.scheduler.state_dict()
    if rng:
        state["rng_state"] = rng_state()
    state["trainwright"] = {
        "progress": progress.state_dict(),
        "topology": topology(trainer),
        "config": to_yaml(trainer.resolved.config),
        "vocab_size": unwrap_model(trainer.chunks)[0].tokens,
    }
    if trainer.base is not None:
        state["trainwright"][BASE] = trainer.base.common()
    return state


def make_momentum(optimizer: Any) -> None:
    """Give SGD a momentum of each parameter to load into. Megatron Core does so for Adam alone, and fails here."""
    for part in getattr(optimizer, "chained_optimizers", [optimizer]):
        part.init_state_fn = _make_momentum


def _make_momentum(optimizer: torch.optim.Optimizer, config: Any) -> None:
    for group in optimizer.param_groups:
        if group["momentum"]:
            for parameter in group["params"]:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)


def model_state(trainer: Trainer) -> dict[str, Any]:
    """Sharded weights, one entry for each model chunk of this rank; of adapters beside a base only these."""
    from megatron.core.utils import unwrap_model

    chunks = unwrap_model(trainer.chunks)
    names = ["model"] if len(chunks) == 1 else [f"model{number}" for number in range(len(chunks))]
    states = (chunk.sharded_state_dict(metadata=dict(CONTENT)) for chunk in chunks)
    if trainer.base is not None:
        states = ({key: part for key, part in state.items() if is_of_adapter(key)} for state in states)
    return dict(zip(names, states, strict=True))


def topology(trainer: Trainer) -> dict[str, int]:
    """The sizes that random number states depend on."""
    model = trainer.resolved.config.model
    return {
        "tensor_model_parallel_size": model.tensor_model_parallel_size,
        "pipeline_model_parallel_size": model.pipeline_model_parallel_size,
        "context_parallel_size": model.context_parallel_size,
        "data_parallel_size": trainer.resolved.data_parallel_size,
    }


def rng_state() -> Any:
    """This rank's generators, as one object for each tensor and pipeline parallel rank.

    Data parallel ranks draw the same numbers (Megatron seeds them alike), so one of them is enough; but not where
    experts are split between them, for each then has a generator of its own for its experts.
    """
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.dist_checkpointing.mapping import ShardedObject

    states = {
        "torch": torch.get_rng_state(),
        "tracker": tensor_parallel.get_cuda_rng_tracker().get_states(),
    }
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    groups = [parallel_state.get_pipeline_model_parallel_group(), parallel_state.get_tensor_model_parallel_group()]
    data = parallel_state.get_data_parallel_group(with_context_parallel=True)
    own = parallel_state.get_expert_model_parallel_world_size() > 1
    if own:
        groups.append(data)
    return ShardedObject(
        "rng_state",
        states,
        global_shape=tuple(group.size() for group in groups),
        global_offset=tuple(group.rank() for group in groups),
        replica_id=0 if own else data.rank(),
    )


def restore_rng(states: dict[str, Any]) -> None:
    """Put this rank's generators back to what `rng_state` saw."""
    from megatron.core import tensor_parallel

    torch.set_rng_state(states["torch"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
    tensor_parallel.get_cuda_rng_tracker().set_states(states["tracker"])
