"""The main job, as a newcomer runs it."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from trainwright_login.demo import STEPS

pytestmark = [pytest.mark.slow, pytest.mark.distributed]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The place where the demo ran, and all that it said."""
    place = tmp_path_factory.mktemp("demo")
    program = Path(sys.executable).with_name("trainwright")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("UV_")}
    done = subprocess.run(
        [program, "demo", "--workdir", "runs/demo"],
        cwd=place,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return place, done.stdout


def test_every_command_is_shown_as_it_runs(told: tuple[Path, str]) -> None:
    """A reader can do by hand what the demo did."""
    shown = re.findall(r"^\$ (.*)$", told[1], re.MULTILINE)
    assert [" ".join(shlex.split(line)[:2]) for line in shown] == [
        "trainwright-data prepare",
        "trainwright launch",
        "trainwright audit",
        "trainwright report",
        "trainwright report",
        "trainwright report",
    ]


def test_the_model_learned(told: tuple[Path, str]) -> None:
    """The loss falls to well under half of what it was, and every step of the run is in the report."""
    report = json.loads((told[0] / "runs/demo/run/training_report.json").read_text())
    losses = [step["loss"] for step in report["steps"]]
    assert len(losses) == STEPS
    assert sum(losses[-20:]) / 20 < 0.45 * losses[0]


def test_two_ranks_shared_the_model(told: tuple[Path, str]) -> None:
    """Tensor and sequence parallelism were on."""
    manifest = json.loads((told[0] / "runs/demo/run/run.json").read_text())
    assert manifest["sessions"][-1]["hardware"]["world_size"] == 2
    configuration = (told[0] / "runs/demo/run/configs/ConfigContainer.yaml").read_text()
    assert "tensor_model_parallel_size: 2" in configuration
    assert "sequence_parallel: true" in configuration


def test_it_ends_with_a_picture_and_three_commands_that_work(told: tuple[Path, str]) -> None:
    """The run directory is named, and each next command can be pasted."""
    place, text = told
    assert (place / "runs/demo/loss.png").read_bytes().startswith(b"\x89PNG")
    farewell = text[text.index("The run is accepted.") :]
    assert "runs/demo/run" in farewell
    commands = re.findall(r"^  (.*?)  # ", farewell, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        # TensorBoard would serve until it is stopped: ask only whether it knows these words.
        program, *words = shlex.split(command) + (["--inspect"] if command.startswith("tensorboard") else [])
        done = subprocess.run(
            [Path(sys.executable).with_name(program), *words], cwd=place, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
