"""A local job is a pure function of the words and of where they were typed."""

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.launch import LaunchError, LocalJob, render_local
from trainwright.launch.local_job import Programs

WORDS = ["--recipe", "vanilla_gpt_pretrain_config", "-tp", "2", "model.num_layers=4"]


def render(words: list[str], **changes: Any) -> LocalJob:
    """A job on two ranks of a machine with eight cores."""
    settings: dict[str, Any] = {
        "nproc_per_node": 2,
        "programs": Programs(run_recipe="/env/bin/run-recipe", torchrun="/env/bin/torchrun"),
        "cwd": Path("/place"),
        "environment": {},
        "cores": 8,
        "now": datetime(2026, 11, 30, 9, 5, 7, tzinfo=UTC),
        "token": "7f3a",
    }
    return render_local(words, **{**settings, **changes})


def test_two_ranks_run_under_torchrun() -> None:
    """The whole command, word for word."""
    run_dir = "runs/vanilla_gpt_pretrain_config-20261130-090507-7f3a"
    job = render(WORDS)
    assert job.command_line == (
        "env OMP_NUM_THREADS=4 /env/bin/torchrun --standalone --local-addr=127.0.0.1 --nproc-per-node=2"
        f" --signals-to-handle=SIGTERM,SIGUSR1 --shutdown-timeout=600 --log-dir={run_dir}/logs --redirects=1:3"
        f" -m trainwright_trainer --run-dir {run_dir}"
        " --recipe vanilla_gpt_pretrain_config -tp 2 model.num_layers=4"
    )
    assert job.run_dir == Path("/place") / run_dir
    assert job.check_argv == ("/env/bin/run-recipe", "--dry-run", "--run-dir", run_dir, *WORDS)


def test_one_rank_runs_without_torchrun() -> None:
    """Then the exit code is run-recipe's own."""
    job = render([*WORDS, "--run-dir", "here"], nproc_per_node=1)
    assert job.argv == ("/env/bin/run-recipe", *WORDS, "--run-dir", "here")


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))), st.integers(1, 9))
def test_words_arrive_byte_for_byte_in_order(words: list[str], ranks: int) -> None:
    """Spaces, quotes, dollars, newlines and empty words survive, also through the printed line."""
    words = ["--run-dir", "r", *[word for word in words if "run_dir" not in word and "run-dir" not in word]]
    job = render(words, nproc_per_node=ranks)
    assert list(job.argv[-len(words) :]) == words
    assert shlex.split(job.command_line)[-len(words) :] == words


@pytest.mark.parametrize(
    ("words", "run_dir"),
    [
        (["--run-dir", "a/b"], "/place/a/b"),
        (["--run_dir=a=b"], "/place/a=b"),
        (["--run-dir", "first", "--run-dir", "second"], "/place/second"),
        (["--run-dir", "/elsewhere"], "/elsewhere"),
        (["--model", "llama 32/1b", "--mode", "pretrain"], "/place/runs/llama-32-1b-20261130-090507-7f3a"),
        (["a=b"], "/place/runs/run-20261130-090507-7f3a"),
    ],
)
def test_the_run_directory_is_the_one_named_or_a_new_one(words: list[str], run_dir: str) -> None:
    """`--run-dir` decides; otherwise recipe, time and a few letters."""
    assert render(words).run_dir == Path(run_dir)


@pytest.mark.parametrize(
    ("given_threads", "cores", "ranks", "added"),
    [(None, 8, 2, "4"), (None, 2, 4, "1"), (None, 7, 2, "3"), ("3", 8, 2, None)],
)
def test_threads_share_the_cores_unless_the_user_said(
    given_threads: str | None, cores: int, ranks: int, added: str | None
) -> None:
    """A rank gets its share of the cores, and a value of the user's stands."""
    environment = {} if given_threads is None else {"OMP_NUM_THREADS": given_threads}
    job = render(WORDS, environment=environment, cores=cores, nproc_per_node=ranks)
    assert job.environment.get("OMP_NUM_THREADS") == added


@pytest.mark.parametrize(
    ("words", "ranks", "message"),
    [
        ([], 1, "nothing to launch"),
        (WORDS, 0, "at least 1 rank"),
        (WORDS, -2, "at least 1 rank"),
        ([*WORDS, "logger.run_dir=x"], 1, "give it as --run-dir"),
        ([*WORDS, "++logger.run_dir=x"], 1, "give it as --run-dir"),
        ([*WORDS, "--run-dir"], 1, "a path is missing"),
    ],
)
def test_what_cannot_be_launched_is_refused_in_one_line(words: list[str], ranks: int, message: str) -> None:
    """The error says what to change, and asks for exit code 2."""
    with pytest.raises(LaunchError, match=message) as caught:
        render(words, nproc_per_node=ranks)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
