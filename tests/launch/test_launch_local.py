"""The local executor against real processes: small programs stand where run-recipe and torchrun would be."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

# What a rank does is a word of the command line: the stand-ins obey it, as run-recipe and torchrun would behave.
RUN_RECIPE = """
import json, os, pathlib, signal, sys, time
words = sys.argv[1:]
run_dir = pathlib.Path(words[words.index("--run-dir") + 1])
behave = next((word.split("=", 1)[1] for word in words if word.startswith("behave=")), "done")
code = int(next((word.split("=", 1)[1] for word in words if word.startswith("code=")), "0"))
if "--dry-run" in words:
    print("a whole configuration")
    if behave == "refuse":
        sys.exit(print("run-recipe: unknown field", file=sys.stderr) or 2)
    sys.exit(print(os.environ["WORLD_SIZE"], "ranks checked", file=sys.stderr))
def leave(code, reason):
    status = {"exit_code": code, "reason": reason, "session_id": "s", "step": 3}
    pathlib.Path(os.environ["TRAINWRIGHT_STATUS_FILE"]).write_text(json.dumps(status))
    (run_dir / "reason").write_text(reason)
    sys.exit(code)
print("words", json.dumps(words), flush=True)
if behave == "wait":
    stopped = []
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda number, frame: stopped.append(number))
    (run_dir / "ready").touch()
    while not stopped:
        time.sleep(0.01)
    leave(75, signal.Signals(stopped[0]).name)
if behave == "hang":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (run_dir / "ready").touch()
    time.sleep(600)
if behave == "crash":
    raise ValueError("boom")
if behave == "silent":
    sys.exit(code)
leave(code, "as told")
"""
TORCHRUN = """
import subprocess, sys
print("W1130 11:43:50.279000 13271 torch/distributed/run.py:852] a warning", file=sys.stderr)
words = sys.argv[sys.argv.index("trainwright_trainer") + 1:]
rank = subprocess.run([RUN_RECIPE, *words])
if rank.returncode == 0:
    sys.exit(0)
print(f"E1130 11:43:51.346000 13271 torch/distributed/elastic/multiprocessing/api.py:1002] failed", file=sys.stderr)
print('Traceback (most recent call last):\\n  File "/env/bin/torchrun", line 10, in <module>\\n'
      "    sys.exit(main())\\n...ChildFailedError:\\nRoot Cause (first observed failure):\\n[0]:\\n"
      f"  rank      : 0 (local_rank: 0)\\n  exitcode  : {rank.returncode} (pid: 1)", file=sys.stderr)
sys.exit(1)
"""
LAUNCH = """
import sys
from trainwright.launch import LaunchError, launch_local
try:
    sys.exit(launch_local(sys.argv[2:], nproc_per_node=int(sys.argv[1])))
except LaunchError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder for PATH with a run-recipe and a torchrun."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, body in (
        ("run-recipe", RUN_RECIPE),
        ("torchrun", f"RUN_RECIPE = {str(folder / 'run-recipe')!r}\n{TORCHRUN}"),
    ):
        program = folder / name
        program.write_text(f"#!{sys.executable}\n{body}")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def start(programs: Path, ranks: int, *words: str) -> "subprocess.Popen[str]":
    """A launcher process, as the `trainwright` command would be."""
    return subprocess.Popen(
        [sys.executable, "-c", LAUNCH, str(ranks), *words],
        cwd=programs.parent,
        env={**os.environ, "PATH": f"{programs}:/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def launch(programs: Path, ranks: int, *words: str) -> "subprocess.CompletedProcess[str]":
    """The launcher from its start to its end."""
    process = start(programs, ranks, *words)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("code", [0, 1, 2, 75])
def test_the_runs_own_exit_code_comes_back(programs: Path, ranks: int, code: int) -> None:
    """torchrun makes every failure a 1; the status that the run leaves says what it was."""
    done = launch(programs, ranks, "--run-dir", "run", f"code={code}")
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize("code", [2, 75, 3])
def test_without_a_status_torchrun_tells_what_the_rank_said(programs: Path, code: int) -> None:
    """A run refused by its ranks writes no status; an unknown code is a failure."""
    done = launch(programs, 2, "--run-dir", "run", "behave=silent", f"code={code}")
    assert done.returncode == (code if code in (2, 75) else 1)
    assert f"rank 0 failed first, with exit code {code}; its output is above" in done.stderr


def test_a_run_that_is_done_but_did_not_end_well_failed(programs: Path) -> None:
    """Both facts are told: the training is complete, and a process ended with an error."""
    done = launch(programs, 2, "--run-dir", "run", "code=0")
    assert done.returncode == 0
    body = (programs / "torchrun").read_text()
    (programs / "torchrun").write_text(body.replace("    sys.exit(0)\n", "    sys.exit(1)\n"))
    done = launch(programs, 2, "--run-dir", "run", "code=0")
    assert done.returncode == 1
    assert "done at step 3, but its processes ended with exit code 1" in done.stderr


def test_a_ranks_traceback_is_shown_and_torchruns_is_not(programs: Path) -> None:
    """One line stands for torchrun's wall, which is kept beside the ranks' logs."""
    done = launch(programs, 2, "--run-dir", "run", "behave=crash")
    assert "ValueError: boom" in done.stderr
    assert done.stderr.count("Traceback") == 1
    assert "torch/distributed" not in done.stderr
    assert "ChildFailedError" not in done.stderr
    noise = (programs.parent / "run" / "logs" / "torchrun.log").read_text()
    assert "a warning" in noise
    assert "ChildFailedError" in noise


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_refusal_starts_no_rank_and_leaves_nothing(programs: Path, ranks: int) -> None:
    """run-recipe's one line comes through, and no directory is made."""
    done = launch(programs, ranks, "behave=refuse")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "run-recipe: unknown field\n")
    assert not (programs.parent / "runs").exists()


def test_a_refusal_by_the_ranks_leaves_nothing_either(programs: Path) -> None:
    """A directory made for a run that never began goes away again; one that was there stays as it was."""
    assert launch(programs, 2, "--run-dir", "new", "behave=silent", "code=2").returncode == 2
    assert not (programs.parent / "new").exists()
    (programs.parent / "old").mkdir()
    for content in (None, "how it was launched"):
        record = programs.parent / "old" / "launch.json"
        if content is not None:
            record.write_text(content)
        assert launch(programs, 1, "--run-dir", "old", "behave=silent", "code=2").returncode == 2
        assert (record.read_text() if record.exists() else None) == content


def test_the_check_knows_the_number_of_ranks(programs: Path) -> None:
    """Topology is validated against what will be started."""
    assert "3 ranks checked" in launch(programs, 3, "--run-dir", "run").stderr


def test_launch_json_says_what_was_started(programs: Path) -> None:
    """The record holds the words as typed and the whole command."""
    words = ["--run-dir", "run", "a b", "x='$HOME'"]
    assert launch(programs, 2, *words).returncode == 0
    record = json.loads((programs.parent / "run" / "launch.json").read_text())
    assert record["words"] == words
    assert record["argv"][-len(words) :] == words
    assert record["nproc_per_node"] == 2
    assert record["cwd"] == str(programs.parent)
    assert record["executor"] == "local"
    assert record["launcher"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_reaches_the_run_and_75_comes_back(programs: Path, number: signal.Signals) -> None:
    """The run stops in good order; Ctrl-C asks for the same as SIGTERM."""
    process = start(programs, 1, "--run-dir", "run", "behave=wait")
    wait_for(programs.parent / "run" / "ready")
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 75, err
    reason = (programs.parent / "run" / "reason").read_text()
    assert reason == ("SIGTERM" if number is signal.SIGINT else number.name)


def test_a_second_interrupt_kills_what_does_not_stop(programs: Path) -> None:
    """A run that hangs does not hold the terminal."""
    process = start(programs, 1, "--run-dir", "run", "behave=hang")
    wait_for(programs.parent / "run" / "ready")
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "SIGINT ended the ranks before they could stop in good order" in err


def test_missing_programs_are_named_with_the_way_to_get_them(programs: Path) -> None:
    """The error says what to install."""
    (programs / "run-recipe").unlink()
    # An interpreter that has no run-recipe beside it: the system's, reading our packages.
    code = f"import sys; sys.executable = {str(programs / 'python')!r}\n{LAUNCH}"
    done = subprocess.run(
        [sys.executable, "-c", code, "1", "a=b"],
        env={**os.environ, "PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "run-recipe is not on PATH: install the training side with `pip install trainwright-trainer`\n"
    )


def wait_for(path: Path) -> None:
    """Until `path` is there; the test's own timeout bounds it."""
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.01)
