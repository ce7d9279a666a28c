"""`pip install 'trainwright[preflight,report]'`: everything that a login node can do."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def test_no_training_stack_came_along(distributions: set[str]) -> None:
    """The extras bring recipes, matplotlib and a reader of event files, and no torch."""
    assert {"trainwright-recipes", "matplotlib"} <= distributions
    assert not distributions & {"torch", "megatron-core", "transformers", "datasets", "tensorboard"}


def test_recipes_resolve_without_torch(installed: Command) -> None:
    """The configuration of a run can be read where it cannot be trained."""
    done = installed("trainwright", "recipes", "show", "llama32_1b_pretrain_config")
    assert done.returncode == 0, done.stderr
    assert "num_layers: 16" in done.stdout


def test_a_report_is_built_and_drawn(installed: Command, place: Path, small_words: list[str]) -> None:
    """TensorBoard's files are read without TensorBoard."""
    run = place / "run"
    trainer = Path(sys.executable).with_name("run-recipe")
    words = [*small_words, "--dataset", "mock", "--run-dir", str(run)]
    trained = subprocess.run([trainer, *words], env=os.environ, capture_output=True, text=True, check=False)
    assert trained.returncode == 0, trained.stderr
    (run / "training_report.json").unlink()
    for command in (["build", str(run)], ["show", str(run)], ["plot", str(run), "--output", "loss.png"]):
        done = installed("trainwright", "report", *command)
        assert done.returncode == 0, done.stderr
    assert (place / "loss.png").read_bytes().startswith(b"\x89PNG")
