"""The variables of a recipe are there before the training stack is, and never over those of the shell."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from trainwright.recipes import ResolvedRun, Selection, resolve
from trainwright_trainer import environment

# What `python -m trainwright_trainer` does, with a note of each start, and a run that only looks around.
PROGRAM = """
import os, sys
from unittest.mock import patch
from trainwright_trainer import run_recipe

print("began", os.getpid(), "torch" in sys.modules, os.environ.get("TORCH_NCCL_HIGH_PRIORITY"))

def run(resolved, **_):
    seen = {name: os.environ[name] for name in resolved.config.env_vars}
    print("runs", "torch" in sys.modules, seen, resolved.canonical_differences[-1])
    print("left", *(name for name in os.environ if name.startswith("TRAINWRIGHT_")))
    return 0

with patch("trainwright.runner.run.run", run):
    sys.exit(run_recipe.main())
"""
WORDS = ("--recipe", "vanilla_gpt_pretrain_config", "--device", "cpu", "env_vars.A=c")


def started(cwd: Path, *words: str, **variables: str) -> list[str]:
    """The lines that the program prints; nothing of the recipe is set before but `variables`."""
    recipe = resolve(Selection(recipe="vanilla_gpt_pretrain_config"), [], world_size=1, device="cpu").config.env_vars
    clean = {name: value for name, value in os.environ.items() if name not in recipe and name != "A"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        env=clean | variables,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_process_begins_once_more_with_the_recipes_variables(tmp_path: Path) -> None:
    """The same process, before torch, once; and the shell's value stays."""
    first, second, runs, left = started(tmp_path, *WORDS, NCCL_NVLS_ENABLE="1")
    assert first.split()[:1] + first.split()[2:] == ["began", "False", "None"]
    assert second.split() == ["began", first.split()[1], "False", "1"]
    assert runs.startswith("runs False"), "whatever reads the variables is imported later"
    assert "'NCCL_NVLS_ENABLE': '1'" in runs
    assert "'A': 'c'" in runs
    assert runs.endswith("env_vars.NCCL_NVLS_ENABLE: 0 -> 1 (shell)")
    assert left == "left", "what was handed over is not handed on"


def test_nothing_begins_again_where_everything_is_set(tmp_path: Path) -> None:
    config = resolve(Selection(recipe="vanilla_gpt_pretrain_config"), [], world_size=1, device="cpu").config
    lines = started(tmp_path, *WORDS, **config.env_vars, A="c")
    assert [line.split()[0] for line in lines] == ["began", "runs", "left"]


@pytest.mark.parametrize("inherited", ["1=A", "A", "", "="])
def test_what_another_process_handed_over_is_not_ours(
    inherited: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A rank that a rank started begins once more too, and an accident does no harm."""
    monkeypatch.setenv(environment.INSTALLED, inherited)
    monkeypatch.setenv("TRAINWRIGHT_TEST", "")
    monkeypatch.delenv("TRAINWRIGHT_TEST")
    began: list[str] = []
    monkeypatch.setattr("os.execv", lambda program, words: began.append(os.environ[environment.INSTALLED]))
    assert environment.install({"TRAINWRIGHT_TEST": "1"}, anew=True) == {"TRAINWRIGHT_TEST"}
    assert began == [f"{os.getpid()}=TRAINWRIGHT_TEST"]
    assert environment.INSTALLED not in os.environ


def test_a_process_that_cannot_begin_again_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables are set before torch is imported all the same."""

    def refuse(program: str, words: list[str]) -> None:
        raise OSError(7, "Argument list too long")

    monkeypatch.setattr("os.execv", refuse)
    monkeypatch.setenv("TRAINWRIGHT_TEST", "")
    monkeypatch.delenv("TRAINWRIGHT_TEST")
    assert environment.install({"TRAINWRIGHT_TEST": "1"}, anew=True) == {"TRAINWRIGHT_TEST"}
    assert os.environ.pop("TRAINWRIGHT_TEST") == "1"
    assert environment.INSTALLED not in os.environ


def canonical_run() -> ResolvedRun:
    return resolve(Selection(recipe="vanilla_gpt_pretrain_config"), [], world_size=1, device="cuda")


def test_a_shell_that_says_otherwise_makes_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark's environment is part of it; secrets are not told."""
    resolved = canonical_run()
    for name, value in resolved.config.env_vars.items():
        monkeypatch.setenv(name, value)
    assert environment.as_it_is(resolved, frozenset()) is resolved
    monkeypatch.setenv("NCCL_GRAPH_REGISTER", "1")
    changed = environment.as_it_is(resolved, frozenset())
    assert not changed.canonical
    assert changed.canonical_differences == ("env_vars.NCCL_GRAPH_REGISTER: 0 -> 1 (shell)",)
    config = resolved.config.model_copy(update={"env_vars": {"MY_TOKEN": "wanted"}})
    monkeypatch.setenv("MY_TOKEN", "unseen")
    (told,) = environment.as_it_is(
        replace(resolved, config=config, sources={**resolved.sources, "env_vars.MY_TOKEN": "recipe"}), frozenset()
    ).canonical_differences
    assert told == "env_vars.MY_TOKEN: <redacted> -> <redacted> (shell)"
