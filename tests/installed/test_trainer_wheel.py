"""`pip install trainwright-trainer`, and nothing else: what a training container gets."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def test_the_login_app_did_not_come_along(distributions: set[str]) -> None:
    """The container trains; it launches nothing."""
    assert {"trainwright-trainer", "trainwright-runner", "torch", "megatron-core"} <= distributions
    assert not distributions & {"trainwright", "trainwright-launch", "nemo-run"}


def test_it_prepares_trains_and_goes_on(installed: Command, place: Path, small_words: list[str]) -> None:
    """Text becomes tokens, tokens become a run, and the run does nothing when it is complete."""
    (place / "text.txt").write_text("In the beginning was the word.\n" * 400)
    prepared = installed(
        "trainwright-data", "prepare", "text.txt", "--output-prefix", "data/text", "--document", "line"
    )
    assert prepared.returncode == 0, prepared.stderr
    words = [
        *small_words,
        *("--dataset", "megatron-indexed", "dataset.data_path=data/text", "--run-dir", "run"),
        "tokenizer.tokenizer_type=ByteLevelTokenizer",
    ]
    for _ in range(2):
        done = installed("run-recipe", *words)
        assert done.returncode == 0, done.stderr
    assert len(json.loads((place / "run" / "run.json").read_text())["sessions"]) == 1
    assert json.loads((place / "run" / "training_report.json").read_text())["steps"]
    audited = installed("python", "-m", "trainwright.metrics_audit", "run", "--expect-step", "2")
    assert audited.returncode == 0, audited.stderr


def test_two_ranks_under_torchrun(installed: Command, place: Path, small_words: list[str]) -> None:
    """The module that torchrun starts is in the wheel."""
    ranks = ("--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=2", "-m", "trainwright_trainer")
    split = ("-tp", "2", "model.sequence_parallel=true")
    done = installed("torchrun", *ranks, *small_words, "--dataset", "mock", "--run-dir", "ranks", *split)
    assert done.returncode == 0, done.stderr
    assert Path(place, "ranks", "checkpoints").is_dir()
