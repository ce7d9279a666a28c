"""The `trainwright` command: what it loads, what it hands on, and what it says when something is wrong."""

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from trainwright_login.main import app

COMMANDS = ("launch", "audit", "report", "recipes", "demo")
HEAVY = ("torch", "numpy", "matplotlib", "nemo_run", "transformers", "rich", "yaml", "trainwright.recipes")


def trainwright(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """The command as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "trainwright_login.main", *words],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def loaded_by(*words: str) -> set[str]:
    """The modules that a command leaves loaded."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('\\n'.join(sorted(sys.modules)), file=sys.stderr))\n"
        "from trainwright_login.main import main\n"
        f"sys.argv = ['trainwright', *{list(words)!r}]\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize("command", [(), *((name,) for name in ("launch", "report", "demo"))], ids=str)
def test_help_loads_nothing_heavy(command: tuple[str, ...]) -> None:
    """Help answers at once because nothing is imported for it."""
    loaded = loaded_by(*command, "--help")
    assert "typer" in loaded
    assert not loaded & set(HEAVY)


def test_help_names_every_command() -> None:
    """A newcomer sees what there is."""
    done = trainwright("--help")
    assert done.returncode == 0
    for name in COMMANDS:
        assert f"\n  {name} " in done.stdout


def test_version_is_the_distributions() -> None:
    """`--version` prints the installed version."""
    assert trainwright("--version").stdout == "trainwright 0.1.0\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["launch", "--executor", "moon", "a=b"], "trainwright: --executor moon: no such executor:"),
        (["lunch"], "trainwright: No such command 'lunch'. Did you mean 'launch'? (trainwright --help)"),
        (["--recipe", "x"], "trainwright: No such option: --recipe (trainwright --help)"),
        (["recipes", "show"], "trainwright recipes show: Missing argument 'NAME' (trainwright recipes show --help)"),
        (["demo", "--workdir", "pyproject.toml"], "trainwright: --workdir pyproject.toml: give a new or an empty"),
        (["report"], "Usage: trainwright report"),
    ],
)
def test_a_mistake_is_told_in_a_line_with_exit_code_2(words: list[str], says: str) -> None:
    """Nothing starts, and no traceback is shown."""
    done = subprocess.run(
        [sys.executable, "-m", "trainwright_login.main", *words],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 2
    assert says in done.stderr + (done.stdout if words == ["report"] else "")
    assert len(done.stderr.splitlines()) == 1 or words == ["report"]


def test_the_traceback_is_there_for_who_asks() -> None:
    """TRAINWRIGHT_DEBUG=1 shows where an error came from."""
    assert "Traceback" in trainwright("launch", "--executor", "moon", "a=b", TRAINWRIGHT_DEBUG="1").stderr


def test_the_audit_gets_every_word(tmp_path: Path) -> None:
    """Also those that look like options of the command."""
    with patch("trainwright_login.audit.run", return_value=1) as audit:
        result = CliRunner().invoke(app, ["audit", str(tmp_path), "--expect-step", "3", "--", "--help"])
    assert result.exit_code == 1
    assert audit.call_args.args == ([str(tmp_path), "--expect-step", "3", "--", "--help"],)
