"""The flow of a launch on Slurm before NeMo-Run is loaded; tests/launch/nemo goes on from there."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from tests.launch.slurm_jobs import NEEDED, RECIPE, settings_of

import trainwright.launch
from trainwright.launch import nemo
from trainwright.launch.slurm import launch_slurm


class Refused(Exception):
    """As the recipes refuse a configuration."""

    exit_code = 2


class Broken(Exception):
    """A mistake of ours."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and an sbatch; NeMo-Run must not be reached unless a test says so."""

    def reached(*_: object) -> NoReturn:
        raise AssertionError("NeMo-Run was reached")

    (tmp_path / "sbatch").touch(mode=0o755)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("NEMORUN_HOME", raising=False)
    monkeypatch.setattr(nemo, "submit", reached)
    monkeypatch.setattr(nemo, "dry_run", reached)
    return tmp_path


def test_the_preflight_sees_the_words_and_all_ranks(place: Path) -> None:
    """Words as typed, without the run directory that the launcher adds; what it raises ends the launch."""
    seen: list[tuple[Sequence[str], int]] = []

    def preflight(words: Sequence[str], world_size: int) -> Sequence[str]:
        seen.append((words, world_size))
        raise Refused("no such recipe")

    with pytest.raises(Refused, match="no such recipe"):
        launch_slurm(settings_of(*NEEDED), (*RECIPE, "a=b"), preflight=preflight)
    assert seen == [((*RECIPE, "a=b"), 16)]
    assert not (place / "home").exists()


def test_under_a_dry_run_a_refusal_is_a_warning(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The container's version decides; the script is printed all the same."""

    def refuses(words: Sequence[str], world_size: int) -> NoReturn:
        raise Refused("no such recipe")

    monkeypatch.setattr(nemo, "dry_run", lambda job, home: "the script")
    assert launch_slurm(settings_of(*NEEDED, "--dry-run"), RECIPE, preflight=refuses) == 0
    shown = capsys.readouterr()
    assert shown.out == "the script\n"
    assert shown.err == "trainwright launch: warning: no such recipe\n"


def test_a_mistake_of_ours_is_no_warning(place: Path) -> None:
    """Not even under a dry run."""

    def breaks(words: Sequence[str], world_size: int) -> NoReturn:
        raise Broken

    with pytest.raises(Broken):
        launch_slurm(settings_of(*NEEDED, "--dry-run"), RECIPE, preflight=breaks)


def test_what_the_preflight_tells_is_shown(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line each, before anything that takes seconds."""
    monkeypatch.setattr(nemo, "dry_run", lambda job, home: capsys.readouterr().err)
    launch_slurm(settings_of(*NEEDED, "--dry-run"), RECIPE, preflight=lambda words, world_size: ["warning: one", "two"])
    before = capsys.readouterr().out
    assert before == "trainwright launch: warning: one\ntrainwright launch: two\n\n"


def test_without_a_preflight_the_name_of_the_recipe_tells_its_size(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(nemo, "dry_run", lambda job, home: "")
    launch_slurm(settings_of(*NEEDED, "--dry-run"), ("--recipe", "x_pretrain_3gpu_h100_bf16_config"))
    assert "was written for 3 GPUs and this job has" in capsys.readouterr().err


def test_nothing_is_loaded_by_importing_the_package() -> None:
    """Names are, when they are used; nemo_run is not, before a job is handed over."""
    code = (
        "import sys, trainwright.launch as launch; "
        "assert [name for name in sys.modules if name.startswith('trainwright.launch.')] == []; "
        "launch.launch_slurm; launch.render_sbatch; "
        "assert not {'nemo_run', 'torch', 'rich', 'pydantic'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_every_name_of_the_package_is_there() -> None:
    """And no other one."""
    for name in trainwright.launch.__all__:
        assert getattr(trainwright.launch, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'made_up'"):
        _ = trainwright.launch.made_up  # type: ignore[attr-defined]
