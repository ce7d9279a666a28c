"""A place to run documented commands in: it looks like the root of a clone and takes all that they write."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOT_SHOWN = {".git", ".nox", ".venv", "runs", "dist", "build"}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder in which every file of the repository is found under its name, and nothing can be spoilt."""
    for entry in ROOT.iterdir():
        if entry.name not in NOT_SHOWN and not entry.name.endswith("_cache"):
            (tmp_path / entry.name).symlink_to(entry)
    return tmp_path


@pytest.fixture
def shell(clone: Path) -> Callable[[str], "subprocess.CompletedProcess[str]"]:
    """Runs a script as a reader's shell would, with the project's own commands on PATH."""
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        # `uv run` finds the environment that these tests run in, and leaves it as it is.
        "UV_PROJECT_ENVIRONMENT": sys.prefix,
        "UV_NO_SYNC": "1",
        # And so does train.sh.
        "VIRTUAL_ENV": sys.prefix,
        "OMP_NUM_THREADS": "1",
    }

    def run(script: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=clone,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=3600,
            check=False,
        )

    return run
