"""A job on this machine as a value: nothing in this module starts, reads or writes anything."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from trainwright.launch.errors import LaunchError
from trainwright.launch.forwarded import default_run_dir, named_run_dir

SHUTDOWN_TIMEOUT_SECONDS = 600
"""How long ranks may take to save a checkpoint after a signal before torchrun kills them (its own default is 30)."""


@dataclass(frozen=True)
class Programs:
    """The container's commands, as found on this machine."""

    run_recipe: str
    torchrun: str


@dataclass(frozen=True)
class LocalJob:
    """One training run on this machine, ready to start.

    `words` are run-recipe's own, as typed, with `--run-dir` before them where the user named no run directory.
    `environment` holds only what the launch adds to the environment it was called in.
    """

    argv: tuple[str, ...]
    check_argv: tuple[str, ...]
    words: tuple[str, ...]
    nproc_per_node: int
    environment: Mapping[str, str]
    cwd: Path
    run_dir: Path

    @property
    def command_line(self) -> str:
        """The job as one line for a POSIX shell in `cwd`."""
        return shlex.join(["env", *(f"{key}={value}" for key, value in self.environment.items()), *self.argv])


def render_local(
    words: Sequence[str],
    *,
    nproc_per_node: int,
    programs: Programs,
    cwd: Path,
    environment: Mapping[str, str],
    cores: int,
    now: datetime,
    token: str,
) -> LocalJob:
    """Turn run-recipe's words into the job that runs them on `nproc_per_node` ranks of this machine.

    `environment` is the caller's, `cores` the processors it may use; `now` and `token` (a few letters) name a run
    directory that the words do not. The words reach run-recipe byte for byte and in order.

    Raises `LaunchError` for a rank count below 1, an empty list of words, or a run directory given in a way that
    hides it from the launcher.
    """
    if nproc_per_node < 1:
        raise LaunchError(f"--nproc-per-node {nproc_per_node}: at least 1 rank is needed")
    if not words:
        raise LaunchError("nothing to launch: give run-recipe's words, such as --recipe vanilla_gpt_pretrain_config")
    named = named_run_dir(words)
    run_dir = named if named is not None else default_run_dir(words, now=now, token=token)
    forwarded = tuple(words) if named is not None else ("--run-dir", run_dir, *words)
    own = {} if "OMP_NUM_THREADS" in environment else {"OMP_NUM_THREADS": str(max(1, cores // nproc_per_node))}
    return LocalJob(
        argv=_argv(forwarded, nproc_per_node, programs, run_dir),
        check_argv=(programs.run_recipe, "--dry-run", *forwarded),
        words=tuple(words),
        nproc_per_node=nproc_per_node,
        environment=own,
        cwd=cwd,
        run_dir=cwd / run_dir,
    )


def _argv(words: Iterable[str], nproc_per_node: int, programs: Programs, run_dir: str) -> tuple[str, ...]:
    """One rank needs no torchrun, and then the exit code is run-recipe's own."""
    if nproc_per_node == 1:
        return (programs.run_recipe, *words)
    other_ranks_to_files = ",".join(f"{rank}:3" for rank in range(1, nproc_per_node))
    return (
        programs.torchrun,
        "--standalone",
        "--local-addr=127.0.0.1",
        f"--nproc-per-node={nproc_per_node}",
        "--signals-to-handle=SIGTERM,SIGUSR1",
        f"--shutdown-timeout={SHUTDOWN_TIMEOUT_SECONDS}",
        f"--log-dir={run_dir}/logs",
        f"--redirects={other_ranks_to_files}",
        "-m",
        "trainwright_trainer",
        *words,
    )
