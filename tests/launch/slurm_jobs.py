"""Settings and jobs for the tests of launching on Slurm."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from trainwright.launch.clusters import Cluster
from trainwright.launch.command_line import split
from trainwright.launch.settings import Settings, effective
from trainwright.launch.slurm_job import SlurmJob, render_slurm

IMAGE = "/images/x.sqsh"
NEEDED = ("--nodes=2", "--gpus-per-node=8", "--account=team", "--partition=batch", f"--container-image={IMAGE}")
RECIPE = ("--recipe", "vanilla_gpt_pretrain_config")
RUN_DIR = "/nemo_run/runs/vanilla_gpt_pretrain_config-20261130-090507-7f3a"
NOW = datetime(2026, 11, 30, 9, 5, 7, tzinfo=UTC)


def settings_of(
    *words: str,
    environment: Mapping[str, str] | None = None,
    cluster: Cluster | None = None,
    cwd: Path = Path("/place"),
) -> Settings:
    """What a command line comes to in `environment`, which is empty unless given."""
    return effective(split(words), environment or {}, cluster, cwd=cwd)


def job_of(*words: str, environment: Mapping[str, str] | None = None, image: str = IMAGE) -> SlurmJob:
    """The job of a command line: `words` behind what every job needs; RECIPE where they name no recipe."""
    recipe = () if "--recipe" in words else RECIPE
    typed = split((*NEEDED[:-1], f"--container-image={image}", *words, *recipe))
    settings = effective(typed, environment or {}, None, cwd=Path("/place"))
    return render_slurm(settings, typed.words, now=NOW, token="7f3a")
