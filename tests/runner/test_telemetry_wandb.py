"""Weights & Biases, which is not installed here: refusal without it, and what a stand-in of the package is told.

The stand-in has the four calls that are used (`init`, `define_metric`, `log`, `finish`) and only writes them down.
"""

import sys
import types

import pytest
from tests.runner.telemetry_run import TOKENS, applied, records, resolved, session, skipped

from trainwright.runner.errors import RunRefused
from trainwright.runner.telemetry import weights_and_biases

ASKED = "logger.wandb_project=project"


@pytest.fixture
def calls(monkeypatch):
    """A stand-in for the package; the calls that it gets."""
    made = []

    class Run:
        def __getattr__(self, name):
            return lambda *arguments, **named: made.append((name, arguments, named))

    def init(**named):
        made.append(("init", (), named))
        return Run()

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    return made


@pytest.fixture
def missing(monkeypatch):
    """A machine without the package."""
    monkeypatch.setitem(sys.modules, "wandb", None)


def test_without_the_package_it_is_refused_before_anything_is_started(missing, tmp_path):
    with pytest.raises(RunRefused, match=r"logger\.wandb_project needs the wandb package") as refusal:
        weights_and_biases.require(resolved(ASKED).config)
    assert refusal.value.exit_code == 2 and "\n" not in str(refusal.value)
    weights_and_biases.require(resolved().config)


def test_a_session_that_is_refused_leaves_no_session_behind(missing, tmp_path):
    with pytest.raises(RunRefused, match="wandb package"), session(tmp_path, ASKED):
        pass
    assert not (tmp_path / "run.json").exists()


def test_what_wandb_says_no_to_is_refused_in_its_words(monkeypatch, tmp_path):
    def init(**named):
        raise RuntimeError("No API key configured.\nMore lines")

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    with pytest.raises(RunRefused, match=r"logger\.wandb_project.*No API key configured\.$"), session(tmp_path, ASKED):
        pass
    assert not (tmp_path / "run.json").exists()


def test_a_run_that_did_not_ask_never_touches_it(calls, tmp_path):
    with session(tmp_path) as telemetry:
        telemetry.attempt(applied(1.0))
        telemetry.finish()
    assert calls == []


def test_the_run_is_continued_under_its_id_with_the_points_that_tensorboard_gets(calls, tmp_path):
    settings = (ASKED, "logger.wandb_entity=team", "logger.wandb_exp_name=try", "+env_vars.HF_TOKEN=abc")
    with session(tmp_path, *settings, start=(5, 5 * TOKENS, 0)) as telemetry:
        telemetry.attempt(skipped())
        telemetry.attempt(applied(2.0))
        telemetry.validation(3.0, 1.0)
        telemetry.finish()
    name, _, init = calls[0]
    assert name == "init" and (init["id"], init["resume"]) == ("run-1", "allow")
    assert (init["project"], init["entity"], init["name"]) == ("project", "team", "try")
    assert init["config"]["train"]["global_batch_size"] == 4
    assert init["config"]["env_vars"]["HF_TOKEN"] == "<redacted>"
    skip, update, validation = (arguments[0] for name, arguments, _ in calls if name == "log")
    assert (skip["step"], skip["skipped-updates"]) == (6, 1.0)
    assert (update["step"], update["lm loss"]) == (6, 2.0)
    assert validation == {"step": 6, "lm loss validation": 3.0}
    assert ("define_metric", ("*",), {"step_metric": "step"}) in calls
    assert calls[-1] == ("finish", (), {"exit_code": 0})


@pytest.mark.parametrize(("ending", "exit_code"), [("interrupt", 0), ("fail", 1)])
def test_it_is_told_how_the_session_ended(calls, tmp_path, ending, exit_code):
    with session(tmp_path, ASKED) as telemetry:
        getattr(telemetry, ending)("reason")
    assert calls[-1] == ("finish", (), {"exit_code": exit_code})


def test_the_event_file_is_closed_even_when_wandb_fails_to_finish(calls, tmp_path, monkeypatch):
    closed = []
    original = weights_and_biases.WandbRun.close

    def failing(self, *, exit_code):
        original(self, exit_code=exit_code)
        raise RuntimeError("the network is gone")

    monkeypatch.setattr(weights_and_biases.WandbRun, "close", failing)
    monkeypatch.setattr(
        "trainwright.runner.telemetry.event_file.EventFile.close", lambda self, *, exit_code: closed.append(self)
    )
    with pytest.raises(RuntimeError, match="network"), session(tmp_path, ASKED) as telemetry:
        telemetry.attempt(applied(1.0))
        telemetry.finish()
    assert len(closed) == 1
    assert records(tmp_path)[-1]["event"] == "session_end"


def test_a_failing_run_keeps_its_own_error_when_wandb_fails_too(calls, tmp_path, monkeypatch):
    def failing(self, *, exit_code):
        raise RuntimeError("the network is gone")

    monkeypatch.setattr(weights_and_biases.WandbRun, "close", failing)
    with pytest.raises(ValueError, match="the cause"), session(tmp_path, ASKED):
        raise ValueError("the cause")
    assert records(tmp_path)[-1]["reason"] == "the cause"
