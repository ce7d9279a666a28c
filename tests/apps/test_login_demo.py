"""The demo before it runs: its plan, and what it refuses. tests/end_to_end runs it."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from trainwright_login import demo


def test_the_plan_is_lines_to_paste() -> None:
    """Each command is one line that a shell splits into a public program and its words, spaces in paths included."""
    steps = demo.plan(Path("my runs/demo"), Path("my runs/demo/run"), Path("/usr/lib/python 3"))
    programs = [shlex.split(step.command)[0] for step in steps]
    assert programs == ["trainwright-data", "trainwright", "trainwright", "trainwright", "trainwright", "trainwright"]
    assert not any("\n" in step.command for step in steps)
    prepare, launch, audit = (shlex.split(step.command) for step in steps[:3])
    assert prepare[:5] == ["trainwright-data", "prepare", "/usr/lib/python 3", "--glob", "*.py"]
    assert "my runs/demo/run" in launch
    assert "model.sequence_parallel=true" in launch
    assert audit == ["trainwright", "audit", "my runs/demo/run", "--expect-step", str(demo.STEPS), "--format", "text"]


def test_a_used_folder_is_left_alone(tmp_path: Path) -> None:
    """Nothing of the user's is overwritten."""
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    done = run_demo("--workdir", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"trainwright: --workdir {tmp_path}: give a new or an empty folder")
    assert list(tmp_path.iterdir()) == [mine]


def test_a_missing_trainer_is_named_with_the_way_to_get_it(tmp_path: Path) -> None:
    """The login app alone cannot train, and says what to install; no folder is made."""
    code = (
        "import sys; sys.executable = '/nowhere/python'\n"
        f"sys.argv = ['trainwright', 'demo', '--workdir', {str(tmp_path / 'new')!r}]\n"
        "from trainwright_login.main import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 2
    assert "is not on PATH" in done.stderr
    assert "pip install trainwright-trainer" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()


def run_demo(*words: str) -> "subprocess.CompletedProcess[str]":
    """The demo as a process of its own."""
    command = [sys.executable, "-m", "trainwright_login.main", "demo", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)
