"""`pip install trainwright`, and nothing else: what a login node or a CI job gets."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., "subprocess.CompletedProcess[str]"]
SITE = shlex.split("--nodes 2 --gpus-per-node 8 --account team --partition batch --container-image /i.sqsh")


@pytest.fixture(scope="module")
def run_directory(place: Path, small_words: list[str]) -> Path:
    """A run that the training side, in an environment of its own, left behind."""
    target = place / "run"
    if not target.exists():
        trainer = Path(sys.executable).with_name("run-recipe")
        words = [*small_words, "--dataset", "mock", "--run-dir", str(target)]
        done = subprocess.run([trainer, *words], env=os.environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return target


def test_no_training_stack_came_along(distributions: set[str], installed: Command) -> None:
    """A login node gets what submits jobs, and nothing that trains."""
    assert {"trainwright", "trainwright-launch", "trainwright-metrics-audit"} <= distributions
    assert not distributions & {"torch", "megatron-core", "transformers", "datasets", "numpy", "tensorboard"}
    assert not distributions & {"trainwright-runner", "trainwright-datasets", "trainwright-trainer"}
    assert installed("python", "-c", "import torch").returncode == 1


def test_it_fits_a_home_directory(folder: Path) -> None:
    """Half of it is Ray, which NeMo-Run brings; bytecode, which Python writes as it likes, is not counted."""
    files = [path for path in folder.parent.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files if path.suffix != ".pyc") < 420e6


def test_it_makes_a_slurm_job(installed: Command) -> None:
    """NeMo-Run imports where only this app was installed, and writes the script; so do we, without it."""
    for how in (("--dry-run",), ("--render", "sbatch")):
        done = installed("trainwright", "launch", *SITE, "--recipe", "any_config", "x='a  b'", *how)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("#!/bin/bash")
        assert """'x='"'"'a  b'"'"''""" in done.stdout
        assert "#SBATCH --account=team" in done.stdout


def test_without_the_recipes_nothing_is_resolved(installed: Command) -> None:
    """The container decides; asking for the preflight names what it needs."""
    words = ("--recipe", "any_config", "--show")
    assert "preflight: off" in installed("trainwright", "launch", *SITE, *words).stdout
    done = installed("trainwright", "launch", *SITE, *words, "--preflight")
    assert done.returncode == 2
    assert "pip install 'trainwright[preflight]'" in done.stderr


def test_help_and_version(installed: Command) -> None:
    """The command is there."""
    assert "launch" in installed("trainwright", "--help").stdout
    assert installed("trainwright", "--version").stdout == "trainwright 0.1.0\n"


def test_it_accepts_a_run(installed: Command, run_directory: Path) -> None:
    """A run trained elsewhere is audited and its report shown."""
    assert installed("trainwright", "audit", str(run_directory), "--expect-step", "2").returncode == 0
    shown = installed("trainwright", "report", "show", str(run_directory))
    assert shown.returncode == 0, shown.stderr
    assert "vanilla_gpt" in shown.stdout


def test_it_refuses_a_run(installed: Command, run_directory: Path, place: Path) -> None:
    """A torn log is evidence of nothing."""
    torn = place / "torn"
    shutil.copytree(run_directory, torn)
    log = torn / "metrics.jsonl"
    log.write_bytes(log.read_bytes()[:-5])
    done = installed("trainwright", "audit", str(torn))
    assert done.returncode == 1
    assert done.stderr.startswith("Invalid training run:")


def test_its_schema_is_there(installed: Command) -> None:
    """Files that are not Python travel in the wheels too."""
    assert '"$schema"' in installed("trainwright", "report", "schema").stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["launch", "--executor", "local", "--nproc-per-node", "2", "a=b"], "pip install trainwright-trainer"),
        (["recipes", "list"], "pip install 'trainwright[preflight]'"),
        (["report", "build", "RUN"], "pip install 'trainwright[report]'"),
        (["demo"], "pip install 'trainwright[report]'"),
    ],
)
def test_what_is_missing_is_named(installed: Command, run_directory: Path, words: list[str], says: str) -> None:
    """A command that needs more than this app says what to install, in one line."""
    done = installed("trainwright", *(str(run_directory) if word == "RUN" else word for word in words))
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
