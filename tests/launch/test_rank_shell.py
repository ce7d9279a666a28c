"""The shell between srun and run-recipe: it passes on arguments, signals and exit codes, whichever shell it is."""

import ast
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.launch.rank_shell import rank_shell

# dash in Debian's images, bash in Red Hat's, busybox in Alpine's.
SHELLS = [words for words in (["dash"], ["bash", "--posix"], ["bash"], ["busybox", "sh"]) if shutil.which(words[0])]


@pytest.fixture(params=SHELLS, ids=" ".join)
def shell(request: pytest.FixtureRequest) -> list[str]:
    """A shell that may be /bin/sh."""
    return request.param


def start(shell: list[str], place: Path, *command: str, rank: int = 0) -> "subprocess.Popen[str]":
    """`command` as a rank of job 7 whose directory is `place`."""
    _, *words = rank_shell(command)
    return subprocess.Popen(
        [*shell, *(word.replace("/nemo_run/", f"{place}/") for word in words)],
        env={"PATH": os.environ["PATH"], "SLURM_JOB_ID": "7", "SLURM_PROCID": str(rank)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def left(place: Path) -> str | None:
    """What stands in the job's directory."""
    path = place / "first_to_fail_7_0"
    return path.read_text() if path.exists() else None


@pytest.mark.parametrize(
    ("does", "code"),
    [
        ("exit 0", 0),
        ("exit 75", 75),
        ("exit 127", 127),
        ("kill -KILL $$", 137),
        ("kill -SEGV $$", 139),
        ("exit 255", 255),
    ],
)
def test_the_runs_code_is_the_shells_and_stays_if_it_is_an_error(
    shell: list[str], tmp_path: Path, does: str, code: int
) -> None:
    """A shell cannot die of the signal that its child died of: 128 and the signal, as srun says of a rank too."""
    process = start(shell, tmp_path, "sh", "-c", does, rank=3)
    process.communicate(timeout=30)
    assert process.returncode == code
    assert left(tmp_path) == (f"3 {code}\n" if code else None)


def test_the_first_rank_to_fail_is_the_one_that_is_remembered(shell: list[str], tmp_path: Path) -> None:
    """What comes later is a consequence."""
    for rank, code in ((2, 5), (0, 1)):
        process = start(shell, tmp_path, "sh", "-c", f"exit {code}", rank=rank)
        _, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (code, "")
    assert left(tmp_path) == "2 5\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_signals_are_passed_on_and_the_run_is_waited_for(
    shell: list[str], tmp_path: Path, number: signal.Signals
) -> None:
    """As often as they come; where Slurm signals the shell alone, the run saves its checkpoint all the same."""
    does = f"trap 'echo told' {number.name[3:]}; echo ready; for i in 1 2 3 4 5 6 7 8 9; do sleep 0.1; done; exit 75"
    process = start(shell, tmp_path, "sh", "-c", does)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    for _ in range(2):
        process.send_signal(number)
        time.sleep(0.3)
    out, err = process.communicate(timeout=30)
    assert (out, err) == ("told\ntold\n", "")
    assert process.returncode == 75
    assert left(tmp_path) == "0 75\n"


def test_a_run_that_dies_of_the_signal_is_told_of_as_such(shell: list[str], tmp_path: Path) -> None:
    """No code is made up of the interrupted wait."""
    process = start(shell, tmp_path, "sh", "-c", "echo ready; exec sleep 60")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 143


def test_a_directory_that_is_not_there_changes_nothing(shell: list[str], tmp_path: Path) -> None:
    """An executor of the user's own may mount no job's directory."""
    process = start(shell, tmp_path / "missing", "sh", "-c", "cat; exit 4")
    out, err = process.communicate("input arrives", timeout=30)
    assert (process.returncode, out, err) == (4, "input arrives", "")


@given(st.lists(st.binary(max_size=12).map(lambda word: os.fsdecode(word.replace(b"\0", b""))), max_size=5))
def test_words_arrive(words: list[str]) -> None:
    """The shell reads none of them."""
    command = rank_shell(("printf", r"%s\0", *words))
    done = subprocess.run(command, capture_output=True, check=True, env={"PATH": os.environ["PATH"]})
    assert done.stdout == b"".join(os.fsencode(word) + b"\0" for word in words or [""])


def test_no_variable_of_the_run_is_touched(shell: list[str], tmp_path: Path) -> None:
    """Whatever their names, also where a checkout goes first."""
    given = {name: "mine" for name in ("run", "code", "new", "again", "source", "folder", "rank", "PYTHONUNBUFFERED")}
    (tmp_path / "apps" / "trainer" / "src").mkdir(parents=True)
    for source in (None, str(tmp_path)):
        _, *words = rank_shell((sys.executable, "-c", "import os; print(dict(os.environ))"), source=source)
        environment = {"PATH": os.environ["PATH"], **given}
        done = subprocess.run([*shell, *words], env=environment, capture_output=True, text=True, check=True, timeout=60)
        assert given.items() <= ast.literal_eval(done.stdout).items()
