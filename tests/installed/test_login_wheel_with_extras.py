"""`pip install 'trainwright[preflight,report]'`: everything that a login node can do."""

import os
import shlex
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
    done = installed("trainwright", "recipes", "show", "llama32_1b_pretrain_config", "--yaml")
    assert done.returncode == 0, done.stderr
    assert "num_layers: 16" in done.stdout


def test_a_launch_is_checked_before_the_queue(installed: Command, small_words: list[str]) -> None:
    """The same words and rules as in the container, for the ranks that are asked for."""
    site = shlex.split("--nodes 2 --gpus-per-node 1 --account a --partition p --container-image /i --render sbatch")
    refused = installed("trainwright", "launch", *site, *small_words, "-tp", "3")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "multiple of 3" in refused.stderr
    done = installed("trainwright", "launch", *site, *small_words, "-tp", "2", "model.sequence_parallel=true")
    assert done.returncode == 0, done.stderr


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
