"""How many ranks `run-recipe` believes there are, and what it says when it fails."""

import os
import subprocess
import sys

import pytest

from trainwright.datasets import DataError
from trainwright.recipes.words import UsageError
from trainwright.runner.errors import RunRefused
from trainwright_trainer.one_voice import tell_once
from trainwright_trainer.outcome import told
from trainwright_trainer.process import auto_device, refuse_lonely_world_size, requested_world_size


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch):
    for name in [name for name in os.environ if name.startswith("SLURM_") or name in ("WORLD_SIZE", "RANK")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("variables", "size"),
    [
        ({}, None),
        ({"WORLD_SIZE": "8"}, 8),
        ({"SLURM_NTASKS": "16"}, 16),
        ({"WORLD_SIZE": "8", "SLURM_NTASKS": "16"}, 8),
        ({"WORLD_SIZE": "", "SLURM_NTASKS": "16"}, 16),
    ],
)
def test_a_dry_run_asks_torchrun_first_and_slurm_second(monkeypatch, variables, size):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert requested_world_size() == size


@pytest.mark.parametrize("text", ["0", "-2", "two", "1.5", "²"])
def test_a_world_size_that_is_no_positive_integer_is_refused(monkeypatch, text):
    monkeypatch.setenv("WORLD_SIZE", text)
    with pytest.raises(UsageError, match=r"WORLD_SIZE is '.*'; it must be a positive integer"):
        requested_world_size()


def test_one_process_of_a_world_of_two_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="nproc_per_node=2"):
        refuse_lonely_world_size()
    monkeypatch.setenv("RANK", "0")
    refuse_lonely_world_size()


@pytest.mark.parametrize(
    ("file", "visible", "torch", "device"),
    [
        ("nvidia0", None, "2.9.0", "cuda"),
        ("nvidia0", "0,1", "2.9.0+cu128", "cuda"),
        ("dxg", None, "2.9.0", "cuda"),
        ("null", None, "2.9.0", "cpu"),
        ("nvidiactl", None, "2.9.0", "cpu"),
        ("nvidia0", "", "2.9.0", "cpu"),
        ("nvidia0", "-1", "2.9.0", "cpu"),
        ("nvidia0", None, "2.9.0+cpu", "cpu"),
    ],
)
def test_auto_takes_a_gpu_that_is_there_and_that_torch_can_use(monkeypatch, tmp_path, file, visible, torch, device):
    (tmp_path / file).touch()
    monkeypatch.setattr("trainwright_trainer.process.DEVICE_FILES", tmp_path)
    monkeypatch.setattr("importlib.metadata.version", lambda name: torch)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert auto_device() == device


def fail(error):
    def body():
        raise error

    return body


def test_an_error_for_the_user_is_one_line_and_its_exit_code(capsys):
    assert told("program", fail(UsageError("first\nsecond"))) == 2
    assert capsys.readouterr() == ("", "program: first second\n")


def test_a_fault_of_ours_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        told("program", fail(ZeroDivisionError()))


def test_debug_shows_where_a_refusal_comes_from(capsys, monkeypatch):
    monkeypatch.setenv("TRAINWRIGHT_DEBUG", "1")
    assert told("program", fail(UsageError("wrong"))) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rank", "local_rank", "error", "line"),
    [
        (0, 0, UsageError("wrong"), "program: wrong\n"),
        (3, 3, UsageError("wrong"), ""),
        (8, 0, UsageError("wrong"), ""),
        (3, 3, DataError("missing"), ""),
        (8, 0, DataError("missing"), "program: missing\n"),
        (0, 0, RunRefused("damaged"), "program: damaged\n"),
        (3, 3, RunRefused("damaged"), "program: damaged (rank 3)\n"),
    ],
)
def test_what_all_ranks_know_is_said_once(monkeypatch, capsys, rank, local_rank, error, line):
    """A rank that knows something alone is told apart by still being alive after a while."""
    monkeypatch.setattr("trainwright_trainer.one_voice.PATIENCE_SECONDS", 0.0)
    for name, value in {"WORLD_SIZE": 16, "RANK": rank, "LOCAL_RANK": local_rank}.items():
        monkeypatch.setenv(name, str(value))
    assert told("program", fail(error), tell=tell_once) == 2
    assert capsys.readouterr() == ("", line)


def test_an_interrupt_from_the_keyboard_is_no_traceback(capsys):
    assert told("program", fail(KeyboardInterrupt())) == 1
    assert capsys.readouterr().err == "program: interrupted\n"


@pytest.mark.parametrize(
    ("words", "code", "heavy"),
    [
        (["--help"], 0, "torch numpy rich yaml pydantic"),
        (["--nonsense"], 2, "torch numpy rich"),
        (["--recipe", "llama32_1b_pretrain_config", "-gb", "0"], 2, "torch rich"),
    ],
)
def test_help_and_refusals_come_without_torch(words, code, heavy):
    """They are answered at once: importing torch costs seconds."""
    script = (
        "import sys; from trainwright_trainer.run_recipe import main; code = main(sys.argv[2:]); "
        "loaded = set(sys.argv[1].split()) & set(sys.modules); sys.exit(repr(loaded) if loaded else code)"
    )
    done = subprocess.run([sys.executable, "-c", script, heavy, *words], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
