"""The variables of a training process: a recipe's lie below those of the shell and of Slurm."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainwright.recipes import ResolvedRun

INSTALLED = "TRAINWRIGHT_INSTALLED"
"""Hands over the exec what was installed: process id and names of variables, apart by what no name may hold."""

SLURM = ("SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "PMI_", "PMIX_", "PYXIS_")
TORCHRUN = ("TORCHELASTIC_", "LOCAL_", "GROUP_", "ROLE_", "RANK", "WORLD_SIZE", "MASTER_")
"""How the names begin of what Slurm, and what torchrun, sets for the processes that they start."""

ORIGINS = {"derived": "run-recipe"}
"""Where a configuration says a variable of `env_vars` comes from -> what that is called here, where it differs."""


def install(variables: Mapping[str, str], *, anew: bool) -> frozenset[str]:
    """Set the variables that nobody has set yet, and return the names of those that are set by this.

    `anew`: the process then begins once more, with its own words, so that its interpreter and its libraries find the
    variables from their first instruction on. Its id stays, and so does whoever waits for it; it happens once.
    """
    earlier = _handed_over()
    missing = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(missing)
    if anew and missing and earlier is None and sys.executable:
        _begin_once_more(list(missing))
    return frozenset(missing).union(earlier or ())


def _begin_once_more(installed: list[str]) -> None:
    """Replace this process by itself; where the system does not allow that, the variables are at least set."""
    os.environ[INSTALLED] = "=".join([str(os.getpid()), *installed])
    sys.stdout.flush()
    sys.stderr.flush()
    with suppress(OSError):
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    del os.environ[INSTALLED]


def _handed_over() -> list[str] | None:
    """What this process installed before it began once more; None where it did not."""
    pid, *names = os.environ.pop(INSTALLED, "").split("=")
    # A variable that was inherited speaks of another process.
    return names if pid == str(os.getpid()) else None


def as_it_is(resolved: ResolvedRun, installed: frozenset[str]) -> ResolvedRun:
    """The run with what the shell or Slurm has set to other values than the configuration: no canonical one then.

    A value that was typed as `env_vars.NAME=VALUE` and that lost is told in a warning.
    """
    from trainwright.runner.telemetry.redaction import redact

    won = {
        name: os.environ[name]
        for name, value in resolved.config.env_vars.items()
        if name not in installed and os.environ.get(name, value) != value
    }
    if not won:
        return resolved
    told, wanted = redact(won), redact(resolved.config.env_vars)
    differences = [f"env_vars.{name}: {wanted[name]} -> {told[name]} ({origin(name, {})})" for name in won]
    typed = [name for name in won if resolved.sources[f"env_vars.{name}"] == "override"]
    return replace(
        resolved,
        canonical=False,
        canonical_differences=(*resolved.canonical_differences, *differences),
        warnings=(
            *resolved.warnings,
            *(f"env_vars.{name}={wanted[name]} has no effect: {name}={told[name]} is set already" for name in typed),
        ),
    )


def dumped(resolved: ResolvedRun, installed: frozenset[str]) -> Iterator[str]:
    """`NAME=VALUE  # origin` for every variable, by name, with secrets hidden."""
    from trainwright.runner.telemetry.redaction import redact

    sources = {name: resolved.sources[f"env_vars.{name}"] for name in installed & resolved.config.env_vars.keys()}
    for name, value in sorted(redact(os.environ).items()):
        yield f"{name}={value}  # {origin(name, sources)}"


def origin(name: str, installed: Mapping[str, str]) -> str:
    """`recipe`, `override` or `run-recipe` for a variable that was installed; else `slurm`, `torchrun` or `shell`.

    Slurm and torchrun are told by the names that they use: what they hand on from the shell is the shell's.
    """
    if name in installed:
        return ORIGINS.get(installed[name], installed[name])
    if name.startswith(SLURM):
        return "slurm"
    return "torchrun" if name.startswith(TORCHRUN) and "TORCHELASTIC_RUN_ID" in os.environ else "shell"
