"""`apps/login/train.sh`: which trainwright it starts, and the environment that it makes, with real installations.

uv's cache holds what is installed, since the tests' own environment came from the same lock file.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRAIN_SH = ROOT / "apps" / "login" / "train.sh"
HOSTILE = ["a b", "", "x='$HOME'", "--", "-h", "*", "\n", 'q="[1, 2]"', "--save_dir=/x;y", "ä\udcff"]
RECORDER = f"""#!{sys.executable}
import json, os, sys
print(json.dumps([os.fsencode(word).hex() for word in sys.argv[1:]]))
"""
MEGABYTES = 420
SITE = shlex.split("--nodes 2 --gpus-per-node 2 --account a --partition p --container-image /i")


def user(home: Path, **changes: str) -> dict[str, str]:
    """The environment of somebody with this home and nothing active."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VIRTUAL_ENV", "XDG_", "SLURM_"))}
    uv_cache = subprocess.run(["uv", "cache", "dir"], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return {**kept, "HOME": str(home), "UV_CACHE_DIR": uv_cache.strip(), **changes}


def start(
    script: Path, *words: str, environment: Mapping[str, str], cwd: Path | None = None
) -> "subprocess.Popen[str]":
    """train.sh as a process group of its own, so that it can be killed with its children."""
    return subprocess.Popen(
        [script, *words],
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(
    script: Path, *words: str, environment: Mapping[str, str], cwd: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """train.sh to its end."""
    process = start(script, *words, environment=environment, cwd=cwd)
    out, err = process.communicate(timeout=500)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture
def active(tmp_path: Path) -> Path:
    """A virtual environment whose trainwright prints the bytes of its words."""
    program = tmp_path / "my env" / "bin" / "trainwright"
    program.parent.mkdir(parents=True)
    program.write_text(RECORDER)
    program.chmod(0o755)
    return program.parents[1]


def test_an_active_environment_gets_every_word_untouched(active: Path, tmp_path: Path) -> None:
    """From any directory and through links, quotes, spaces, line breaks and bytes that are no text arrive."""
    link, link_to_link = tmp_path / "a link", tmp_path / "b"
    link.symlink_to(TRAIN_SH)
    link_to_link.symlink_to(link)
    for script in (TRAIN_SH, link, link_to_link):
        done = run(script, *HOSTILE, environment=user(tmp_path, VIRTUAL_ENV=str(active)), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == [os.fsencode(word).hex() for word in ("launch", *HOSTILE)]
    assert not (tmp_path / ".cache").exists()


def test_an_active_environment_without_trainwright_is_refused_in_a_line(active: Path, tmp_path: Path) -> None:
    """Whoever activated an environment means that one; nothing else is made behind their back."""
    (active / "bin" / "trainwright").unlink()
    done = run(TRAIN_SH, "--help", environment=user(tmp_path, VIRTUAL_ENV=str(active)))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{active} has no trainwright command: pip install 'trainwright[preflight]' into it" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / ".cache").exists()


@pytest.mark.parametrize(
    ("changes", "cache"),
    [
        ({"XDG_CACHE_HOME": "{home}/file"}, "{home}/file"),
        # A relative path means nothing there, and must not be taken from the checkout.
        ({"HOME": "{home}/file", "XDG_CACHE_HOME": "relative"}, "{home}/file/.cache"),
    ],
)
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, changes: dict[str, str], cache: str) -> None:
    """With what to do; nothing is installed anywhere else."""
    (tmp_path / "file").touch()
    changes = {name: value.format(home=tmp_path) for name, value in changes.items()}
    done = run(TRAIN_SH, "--help", environment=user(tmp_path, **changes), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"train.sh: {cache.format(home=tmp_path)}/trainwright cannot be written: "
        "set XDG_CACHE_HOME to a directory that can, or activate an environment that has trainwright\n"
    )
    assert not (ROOT / "relative").exists()


def test_without_a_home_there_is_no_place(tmp_path: Path) -> None:
    """And it says so rather than bash."""
    done = run(TRAIN_SH, "--help", environment=user(tmp_path, HOME=""), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("train.sh: HOME is not set")
    assert done.stderr.count("\n") == 1


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of our own in a folder with spaces."""
    target = tmp_path_factory.mktemp("train sh") / "my checkout"
    target.mkdir()
    for name in ("uv.lock", "pyproject.toml", ".python-version"):
        shutil.copy(ROOT / name, target / name)
    for name in ("apps", "packages"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    return target


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the environments are made."""
    return tmp_path_factory.mktemp("home of a user")


@pytest.fixture(scope="module")
def script(checkout: Path, home: Path) -> Path:
    """train.sh of that checkout, after its first start, which makes the environment."""
    script = checkout / "apps" / "login" / "train.sh"
    done = run(script, "--help", environment=user(home), cwd=home)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: trainwright launch")
    assert "making an environment for the launcher" in done.stderr
    return script


def environments(home: Path) -> list[Path]:
    """The environments made so far."""
    return [path for path in (home / ".cache" / "trainwright").glob("login-*") if path.is_dir()]


def test_its_own_environment_holds_the_launcher_and_no_training_stack(script: Path, home: Path) -> None:
    """The preflight is in it, torch is not, and it is small enough for a home directory's quota."""
    (made,) = environments(home)
    code = "import importlib.metadata as m; print(*(d.name.lower().replace('_', '-') for d in m.distributions()))"
    listed = subprocess.run([made / "bin" / "python", "-Ic", code], capture_output=True, text=True, check=True).stdout
    names = set(listed.split())
    assert {"trainwright", "trainwright-launch", "trainwright-recipes", "nemo-run"} <= names
    assert not names & {"torch", "megatron-core", "transformers", "datasets", "numpy", "trainwright-runner", "pytest"}
    files = [path for path in made.rglob("*") if path.is_file() and not path.is_symlink()]
    assert sum(path.stat().st_size for path in files if path.suffix != ".pyc") < MEGABYTES * 1e6


def test_the_next_start_makes_nothing_and_needs_no_network(script: Path, home: Path) -> None:
    """It says nothing of its own, and does not even ask uv."""
    done = run(script, "--help", environment=user(home, UV_OFFLINE="1", UV_CACHE_DIR="/nowhere"), cwd=home)
    assert done.returncode == 0
    assert done.stderr == ""


def test_the_preflight_is_there(script: Path, home: Path, tmp_path: Path) -> None:
    """A misspelt field costs a second; the words are those typed."""
    words = [
        "--nodes",
        "2",
        "--gpus-per-node",
        "2",
        "--account",
        "a",
        "--partition",
        "p",
        "--container-image",
        "/i",
        "--render",
        "sbatch",
    ]
    recipe = ("--recipe", "vanilla_gpt_pretrain_config", "--dataset", "mock")
    refused = run(script, *words, *recipe, "model.hidden_sise=8", environment=user(home), cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "hidden_size" in refused.stderr
    done = run(script, *words, *recipe, "checkpoint.save='/a b'", environment=user(home), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("#!")


def test_python_variables_reach_the_job_and_not_the_launcher(script: Path, home: Path, tmp_path: Path) -> None:
    """A module system's PYTHONPATH would break the launcher; `--env PYTHONPATH` can forward it all the same."""
    (tmp_path / "typer.py").write_text("raise SystemExit('the wrong typer')")
    words = [
        "--nodes",
        "1",
        "--gpus-per-node",
        "1",
        "--account",
        "a",
        "--partition",
        "p",
        "--container-image",
        "/i",
        "--env",
        "PYTHONPATH",
    ]
    environment = user(home, PYTHONPATH=str(tmp_path))
    done = run(script, *words, "--recipe", "r", "--show", "--no-preflight", environment=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "PYTHONPATH" in done.stdout


def test_an_interrupted_installation_is_made_again(script: Path, home: Path, tmp_path: Path) -> None:
    """Killed in the middle, it leaves no stamp, and what it left is not built upon."""
    interrupted = start(script, "--help", environment=user(tmp_path), cwd=home)
    deadline = time.monotonic() + 100
    while not any((path / "bin").is_dir() for path in environments(tmp_path)):
        assert interrupted.poll() is None, interrupted.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(interrupted.pid, signal.SIGKILL)
    interrupted.communicate()
    (left,) = environments(tmp_path)
    assert not (left / "ready").exists()
    (left / "left-behind").touch()
    done = run(script, "--help", environment=user(tmp_path), cwd=home)
    assert done.returncode == 0, done.stderr
    assert environments(tmp_path) == [left]
    assert not (left / "left-behind").exists()


def test_two_first_starts_at_once_make_one_environment(script: Path, tmp_path: Path) -> None:
    """The second waits for the first and takes what it made."""
    started = [start(script, "--help", environment=user(tmp_path), cwd=tmp_path) for _ in range(2)]
    said = []
    for process in started:
        out, err = process.communicate(timeout=500)
        assert process.returncode == 0, err
        assert out.startswith("Usage: ")
        said.append(err)
    assert len(environments(tmp_path)) == 1
    assert sorted("making an environment" in err for err in said) == [False, True]
    assert any("another start is making the environment" in err for err in said)


def test_other_dependencies_are_another_environment(script: Path, checkout: Path, home: Path) -> None:
    """After `git pull` the old one is not used for what it does not hold."""
    before = environments(home)
    lock = checkout / "uv.lock"
    text = lock.read_text(encoding="utf-8")
    try:
        lock.write_text(text + "\n", encoding="utf-8")
        done = run(script, "--help", environment=user(home), cwd=home)
    finally:
        lock.write_text(text, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert len(environments(home)) == len(before) + 1


def test_an_installation_that_fails_says_so_and_leaves_no_stamp(script: Path, tmp_path: Path) -> None:
    """uv's words come first, then one line of ours; exit code 2."""
    environment = user(tmp_path, UV_OFFLINE="1", UV_CACHE_DIR=str(tmp_path / "empty"))
    done = run(script, "--help", environment=environment, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("train.sh: the environment could not be made; what went wrong stands above\n")
    assert not any((path / "ready").exists() for path in environments(tmp_path))


def programs(folder: Path, **linked: str) -> Path:
    """A folder for PATH that holds what train.sh needs of a system, and no uv."""
    folder.mkdir()
    needed = ("bash", "cat", "env", "flock", "mkdir", "mv", "realpath", "rm", "sha256sum")
    for name, target in {**{name: shutil.which(name) for name in needed}, **linked}.items():
        (folder / name).symlink_to(target)
    return folder


def test_without_uv_and_without_a_new_python_both_are_named(script: Path, tmp_path: Path) -> None:
    """An old system Python is not tried and failed with."""
    old = tmp_path / "old"
    old.write_text("#!/bin/bash\nexit 1\n")
    old.chmod(0o755)
    environment = user(tmp_path, PATH=str(programs(tmp_path / "bin", python3=str(old))))
    done = run(script, "--help", environment=environment, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("Python 3.12 or newer is needed, or uv, which brings one: python3 -m pip install uv\n")


@pytest.mark.slow
def test_without_uv_pip_makes_the_environment(script: Path, tmp_path: Path) -> None:
    """The system's Python is enough; it takes its minutes once."""
    python = str(Path(sys.base_prefix) / "bin" / "python3")
    environment = user(tmp_path, PATH=str(programs(tmp_path / "bin", python3=python)))
    for _ in range(2):
        done = run(script, *SITE, "--recipe", "r", "--dry-run", "--no-preflight", environment=environment, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("#!")
    assert done.stderr == ""
    (made,) = environments(tmp_path)
    assert not list(made.glob("lib/python*/site-packages/torch"))
