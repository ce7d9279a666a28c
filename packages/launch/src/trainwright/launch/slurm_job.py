"""A Slurm job as a value: nothing in this module starts, reads or writes anything."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from trainwright.launch import forwarded
from trainwright.launch.errors import LaunchError
from trainwright.launch.mounts import JOB_MOUNT, Mount, host_path
from trainwright.launch.quoting import check_lengths
from trainwright.launch.settings import Settings

__all__ = ["JOB_MOUNT", "SlurmJob", "render_slurm"]

_RUN_RECIPE = ("run-recipe",)
_FROM_SOURCE = ("python3", "-m", "trainwright_trainer")


@dataclass(frozen=True)
class SlurmJob:
    """One training run on a cluster, ready to be written as a script by NeMo-Run or by us."""

    name: str
    """Experiment name, job name, and NeMo-Run's task name."""
    id: str
    """`<name>-<time>-<token>`: no other launch has the same."""
    nodes: int
    tasks_per_node: int
    directives: Mapping[str, str | bool]
    """sbatch's long options without dashes, beside job name, nodes, tasks per node, output, open mode and requeue; True
    for one without a value."""
    image: str
    """"" where an executor of the user's own brings its image."""
    mounts: tuple[Mount, ...]
    """Without the job's own directory."""
    env_names: tuple[str, ...]
    srun_args: tuple[str, ...]
    words: tuple[str, ...]
    """run-recipe's, as typed; a byte that is no UTF-8 stands as a lone surrogate."""
    run_dir: str
    """In the container."""
    checkpoints: str
    """In the container."""
    command: tuple[str, ...]
    """What each rank executes in the container: run-recipe, or the checkout's, and its words."""
    memory_clock: int | None
    """MHz to lock the GPUs' memory clock at; None leaves it alone."""
    max_requeues: int
    source: str | None
    notes: tuple[str, ...]
    """Lines to show the user."""


def render_slurm(settings: Settings, words: Sequence[str], *, now: datetime, token: str) -> SlurmJob:
    """Turn settings and run-recipe's words into the job that runs them.

    `now` and `token` (a few letters) name a run directory that the words do not. The words reach run-recipe byte for
    byte and in order.

    Raises `LaunchError` for words that name no recipe or two, that hide the run directory or give a relative one, or
    that are too long for any program; `ValueError` where nodes or GPUs are not set.
    """
    if settings.nodes is None or settings.gpus_per_node is None:
        raise ValueError("nodes and gpus_per_node must be set: `effective` requires them")
    forwarded.check_selectors(words)
    run_dir, run_dir_words, notes = _run_dir(settings, words, now=now, token=token)
    forwarded_words = (*run_dir_words, *words)
    command = (*(_RUN_RECIPE if settings.source is None else _FROM_SOURCE), *forwarded_words)
    check_lengths(command)
    return SlurmJob(
        name=settings.experiment_name,
        id=f"{settings.experiment_name}-{now:%Y%m%d-%H%M%S}-{token}",
        nodes=settings.nodes,
        tasks_per_node=settings.gpus_per_node,
        directives=_directives(settings),
        image=settings.container_image or "",
        mounts=settings.mounts,
        env_names=settings.env,
        srun_args=settings.srun_args,
        words=tuple(words),
        run_dir=run_dir,
        checkpoints=posixpath.join(f"{JOB_MOUNT}/code", forwarded.checkpoints(words, run_dir)),
        command=command,
        memory_clock=None if settings.peak_mem_clk in (None, -1) else settings.peak_mem_clk,
        max_requeues=settings.max_requeues,
        source=settings.source,
        notes=notes,
    )


def host_of(path: str, job: SlurmJob, job_dir: str) -> str | None:
    """Where a path of the container is on the host, given the job's own directory there; None outside every mount."""
    return host_path(path, (*job.mounts, Mount(job_dir, JOB_MOUNT, "")))


def _run_dir(
    settings: Settings, words: Sequence[str], *, now: datetime, token: str
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The run directory in the container, the words that say so, and what the user should know of it."""
    named = forwarded.named_run_dir(words)
    if named is None:
        run_dir = f"{JOB_MOUNT}/{forwarded.default_run_dir(words, now=now, token=token)}"
        return run_dir, ("--run-dir", run_dir), ()
    if not named.startswith("/"):
        raise LaunchError(
            f"--run-dir {named}: give an absolute path under a --mount, so that another submission finds it again"
        )
    lost = host_path(named, (*settings.mounts, Mount("/", JOB_MOUNT, ""))) is None
    note = f"--run-dir {named}: no --mount holds it, so it is lost with the container unless the site mounts it"
    return named, (), (note,) if lost else ()


def _directives(settings: Settings) -> dict[str, str | bool]:
    directives: dict[str, str | bool | None] = {
        "account": settings.account,
        "partition": settings.partition,
        "time": settings.time,
        "gres": settings.gres,
        "signal": settings.signal,
        # PATH, because the batch script itself needs srun; Pyxis leaves the container its own.
        "export": ",".join(("PATH", *settings.env)),
    }
    by_gres = settings.gres is not None and "gpu" in re.split(r"[:,/=]", settings.gres)
    if not settings.no_gpu_resource_request and not by_gres:
        directives["gpus-per-node"] = str(settings.gpus_per_node)
    directives |= {key.replace("_", "-"): value for key, value in settings.additional_slurm_params.items()}
    return {key: value for key, value in sorted(directives.items()) if value is not None}
