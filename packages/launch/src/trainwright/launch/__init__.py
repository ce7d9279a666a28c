"""Where a run goes: a Slurm cluster, this machine, or an executor of the user's own.

A job is rendered as a pure value first, then carried out. Names are loaded when first used, so that importing the
package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainwright.launch.batch_script import render_sbatch
    from trainwright.launch.command_line import split
    from trainwright.launch.errors import LaunchError, SubmissionFailed
    from trainwright.launch.local import launch_local
    from trainwright.launch.local_job import LocalJob, render_local
    from trainwright.launch.options import OPTIONS
    from trainwright.launch.settings import Settings, effective, show
    from trainwright.launch.slurm import launch_slurm
    from trainwright.launch.slurm_job import SlurmJob, render_slurm

__all__ = [
    "OPTIONS",
    "LaunchError",
    "LocalJob",
    "Settings",
    "SlurmJob",
    "SubmissionFailed",
    "effective",
    "launch_local",
    "launch_slurm",
    "render_local",
    "render_sbatch",
    "render_slurm",
    "show",
    "split",
]

_HOME = {
    "LaunchError": "errors",
    "LocalJob": "local_job",
    "OPTIONS": "options",
    "Settings": "settings",
    "SlurmJob": "slurm_job",
    "SubmissionFailed": "errors",
    "effective": "settings",
    "launch_local": "local",
    "launch_slurm": "slurm",
    "render_local": "local_job",
    "render_sbatch": "batch_script",
    "render_slurm": "slurm_job",
    "show": "settings",
    "split": "command_line",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
