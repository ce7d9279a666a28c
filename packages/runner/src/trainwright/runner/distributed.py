"""Who I am among the ranks, and how the process groups come up."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from trainwright.runner.errors import RunError, RunRefused

if TYPE_CHECKING:
    from trainwright.recipes import ConfigContainer
    from trainwright.runner.devices import Device


@dataclass(frozen=True)
class Place:
    """This process among all ranks, as its launcher says."""

    rank: int
    world_size: int
    local_rank: int
    ranks_per_node: int
    launcher: str
    """`torchrun`, `slurm` or `none`."""


def place(environment: Mapping[str, str] = os.environ) -> Place:
    """Read rank and world size from torchrun's variables, else from a Slurm step's, else this is the only rank.

    Slurm's allocation variables alone are not enough: a shell inside an allocation has them too, and is one process.

    Raises:
        RunRefused: a variable of the launcher is missing or no number.
    """
    step = _step_variables(environment)
    if {"RANK", "WORLD_SIZE"} <= environment.keys() and not _repeats_the_step(environment, step):
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        given, launcher = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": environment["WORLD_SIZE"], **environment}, "torchrun"
    elif step:
        names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE")
        given, launcher = step, "slurm"
    else:
        return Place(0, 1, 0, 1, "none")
    numbers = []
    for name in names:
        text = given.get(name)
        if text is None or not text.isdigit():
            raise RunRefused(f"the environment variable {name} must be a number, it is {text!r} (set by {launcher})")
        numbers.append(int(text))
    rank, world_size, local_rank, ranks_per_node = numbers
    return Place(rank, world_size, local_rank, ranks_per_node, launcher)


def _step_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """What Slurm says to a task of a step; empty outside one."""
    if not {"SLURM_STEP_ID", "SLURM_PROCID"} <= environment.keys():
        return {}
    tasks = environment.get("SLURM_STEP_NUM_TASKS", environment.get("SLURM_NTASKS", "1"))
    nodes = environment.get("SLURM_STEP_NUM_NODES", "1")
    even = str(max(1, int(tasks) // max(1, int(nodes)))) if tasks.isdigit() and nodes.isdigit() else "1"
    # `2(x3),1`: two tasks on each of three nodes, one on the last.
    per_node = re.match(r"\d+", environment.get("SLURM_STEP_TASKS_PER_NODE", ""))
    own = {name: text for name, text in environment.items() if name in ("SLURM_PROCID", "SLURM_LOCALID")}
    return {**own, "SLURM_STEP_NUM_TASKS": tasks, "SLURM_STEP_TASKS_PER_NODE": per_node[0] if per_node else even}


def _repeats_the_step(environment: Mapping[str, str], step: Mapping[str, str]) -> bool:
    """Whether RANK and WORLD_SIZE are a container runtime's copy of the step's numbers.

    Pyxis and enroot set them in PyTorch's images, without LOCAL_WORLD_SIZE, which every torchrun sets.
    """
    copied = [(environment.get("RANK"), "SLURM_PROCID"), (environment.get("WORLD_SIZE"), "SLURM_STEP_NUM_TASKS")]
    return "LOCAL_WORLD_SIZE" not in environment and all(text == step.get(name) for text, name in copied)


def start(config: ConfigContainer, device: Device, here: Place) -> None:
    """Bring up `torch.distributed` and Megatron's process groups, and seed every random number generator.

    Raises:
        RunRefused: the launcher gave no address to meet at.
    """
    import torch
    from megatron.core import parallel_state, tensor_parallel

    timeout = timedelta(minutes=config.dist.distributed_timeout_minutes)
    backend = config.dist.distributed_backend
    if here.launcher == "none":
        torch.distributed.init_process_group(
            backend, store=torch.distributed.HashStore(), rank=0, world_size=1, timeout=timeout
        )
    else:
        _meeting_point(here)
        torch.distributed.init_process_group(
            backend, init_method="env://", rank=here.rank, world_size=here.world_size, timeout=timeout
        )
    model = config.model
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=model.tensor_model_parallel_size,
        pipeline_model_parallel_size=model.pipeline_model_parallel_size,
        virtual_pipeline_model_parallel_size=_virtual_stages(config),
        context_parallel_size=model.context_parallel_size,
        expert_model_parallel_size=model.expert_model_parallel_size,
        expert_tensor_parallel_size=model.expert_tensor_parallel_size,
        distributed_timeout_minutes=config.dist.distributed_timeout_minutes,
    )
    # Pipeline stages draw different numbers, or they would begin with the same weights. Megatron-LM's distance.
    seed = config.rng.seed + 100 * parallel_state.get_pipeline_model_parallel_rank()
    device.seed(seed)
    tensor_parallel.model_parallel_cuda_manual_seed(seed)


def stop() -> None:
    """Take the process groups down again, so that a process may start another run."""
    import torch
    from megatron.core import parallel_state

    parallel_state.destroy_model_parallel()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _virtual_stages(config: ConfigContainer) -> int | None:
    stages = config.model.virtual_pipeline_model_parallel_size
    return stages if stages is not None and stages > 1 else None


def _meeting_point(here: Place) -> None:
    """Under Slurm alone nobody sets MASTER_ADDR and MASTER_PORT: the first node, and a port of the step's own."""
    if here.launcher == "slurm":
        for name, find in {"MASTER_ADDR": step_address, "MASTER_PORT": step_port}.items():
            if not os.environ.get(name):
                os.environ[name] = str(find(os.environ))
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        if not os.environ.get(name):
            raise RunRefused(f"the environment variable {name} is not set: start ranks with torchrun or srun")


def step_address(environment: Mapping[str, str]) -> str:
    """Where rank 0 of a Slurm step is: the step's first host by name, if this container can resolve it.

    Else the address of the node that ran `srun`, which in a batch job is the first node too.
    """
    host = first_host(environment.get("SLURM_STEP_NODELIST", ""))
    if host:
        try:
            socket.getaddrinfo(host, None)
            return host
        except OSError:
            pass
    return environment.get("SLURM_LAUNCH_NODE_IPADDR") or socket.gethostname()


def step_port(environment: Mapping[str, str]) -> int:
    """A port from 20000 to 29999, below Linux's ephemeral range, that every rank of a Slurm step finds alike.

    Other jobs on the node, other steps of the job and another start of it after a requeue (when the port of the
    first may still be waiting for its last packets) have other ports.
    """
    factors = {"SLURM_JOB_ID": 1, "SLURM_STEP_ID": 1013, "SLURM_RESTART_COUNT": 4001}
    return 20000 + sum(factor * int(environment.get(name) or 0) for name, factor in factors.items()) % 10000


def first_host(nodelist: str) -> str:
    """The first host of a Slurm node list: `gpu[07-09,12],login1` gives `gpu07`."""
    head, bracket, tail = nodelist.partition("[")
    if not bracket or "," in head:
        return nodelist.split(",")[0]
    ranges, _, suffix = tail.partition("]")
    return head + ranges.split(",")[0].split("-")[0] + suffix.split(",")[0]


def rank_zero_first[T](work: Callable[[], T], here: Place) -> T | None:
    """Do `work` on rank 0 while the others wait; an error there is raised on every rank, so that all end alike."""
    import torch

    result: T | None = None
    error: RunError | None = None
    if here.rank == 0:
        try:
            result = work()
        except RunError as caught:
            error = caught
    box = [None if error is None else (type(error), str(error))]
    torch.distributed.broadcast_object_list(box, src=0)
    if box[0] is not None:
        kind, message = box[0]
        raise kind(message) from error
    return result


def share[T](value: T, here: Place) -> T:
    """Rank 0's value on every rank."""
    import torch

    box = [value if here.rank == 0 else None]
    torch.distributed.broadcast_object_list(box, src=0)
    return box[0]  # type: ignore[return-value]  # the broadcast has filled it
