"""An app as installed from its wheel: only its own folder of commands is on PATH.

`nox -s login` and `nox -s trainer` build the wheels, install one app into a fresh environment, and name that here.
"""

import json
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def small_words() -> list[str]:
    """Words of a run that takes seconds."""
    return shlex.split("""
        --recipe vanilla_gpt_pretrain_config --device cpu -ms 2 -gb 2 -mb 1 -sl 32 --warmup_iters 1
        model.num_layers=1 model.hidden_size=32 model.num_attention_heads=2 validation.eval_interval=null
    """)


@pytest.fixture(scope="session")
def folder() -> Path:
    """The commands of the installed environment."""
    named = os.environ.get("TRAINWRIGHT_INSTALLED")
    assert named, "run these tests through `nox -s login` or `nox -s trainer`"
    return Path(named)


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands run: no checkout is near."""
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="session")
def installed(folder: Path, place: Path) -> Command:
    """Runs a command of the installed environment, with nothing of the checkout in reach."""

    def run(program: str, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [folder / program, *words],
            cwd=place,
            env={"PATH": f"{folder}:/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def distributions(installed: Command) -> set[str]:
    """What is installed, by name."""
    code = "import importlib.metadata as m, json; print(json.dumps([d.name.lower() for d in m.distributions()]))"
    return set(json.loads(installed("python", "-c", code).stdout))
