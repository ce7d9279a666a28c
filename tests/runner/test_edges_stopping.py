"""What is asked of a run at an awkward moment, and what breaks under it: it ends in good order and says why."""

import json

import pytest
from tests.runner.interventions import train_hit
from tests.runner.training import corpus, records, train_on

from trainwright.metrics_audit.audit import summarize
from trainwright.recipes import Selection, resolve
from trainwright.runner import directory
from trainwright.runner.testing import RankFailed, run_ranks

pytestmark = pytest.mark.distributed
SAVES = ("train.train_iters=6", "checkpoint.save_interval=2")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A corpus."""
    return corpus(tmp_path_factory.mktemp("data"))


def last(run_dir):
    return records(run_dir)[-1]


def test_a_signal_to_one_of_two_ranks_stops_both_after_the_same_update(data, tmp_path):
    run_dir = tmp_path / "run"
    assert run_ranks(train_hit, 2, "SIGTERM", "update 2", 1, 2, run_dir, data, *SAVES) == [75, 75]
    assert (last(run_dir)["event"], last(run_dir)["step"]) == ("session_interrupted", 3)


def test_a_signal_that_comes_with_the_last_update_leaves_a_complete_run(data, tmp_path):
    run_dir = tmp_path / "run"
    assert run_ranks(train_hit, 1, "SIGTERM", "update 5", 0, 1, run_dir, data, *SAVES) == [0]
    assert summarize(run_dir, expect_step=6)["completed"]


def test_a_signal_during_start_up_waits_for_the_first_update(data, tmp_path):
    run_dir = tmp_path / "run"
    assert run_ranks(train_hit, 1, "SIGTERM", "start-up", 0, 1, run_dir, data, *SAVES) == [75]
    assert (last(run_dir)["event"], last(run_dir)["step"]) == ("session_interrupted", 1)
    assert (run_dir / "checkpoints" / "iter_0000001").is_dir()


def test_a_signal_gives_up_a_validation_and_not_the_updates(data, tmp_path):
    run_dir = tmp_path / "run"
    long = ("dataset.split='67,33,0'", "validation.eval_interval=2", "validation.eval_iters=100000")
    assert run_ranks(train_hit, 1, "SIGTERM", "validation", 0, 1, run_dir, data, *SAVES, *long) == [75]
    assert last(run_dir)["event"] == "session_interrupted"
    assert not [record for record in records(run_dir) if record["event"] == "val"]


def test_a_rank_that_lost_the_others_says_so_in_one_line_and_in_the_log(data, tmp_path):
    run_dir = tmp_path / "run"
    with pytest.raises(RankFailed, match="RunFailed: contact with another rank is lost"):
        run_ranks(train_hit, 2, "SIGKILL", "update 4", 1, 2, run_dir, data, *SAVES)
    assert last(run_dir)["event"] == "failed" and "contact with another rank" in last(run_dir)["reason"]
    assert json.loads((run_dir / "status.json").read_text())["exit_code"] == 1
    assert run_ranks(train_on, 2, 2, run_dir, data, *SAVES) == [0, 0]
    assert summarize(run_dir, expect_step=6)["start_step"] == 2


@pytest.mark.parametrize(
    ("event", "ranks", "words"),
    [
        ("no space left", 2, ()),
        ("no space left", 1, ("checkpoint.async_save=true",)),
        ("a file for a folder", 2, ()),
    ],
    ids=["no space left on one rank", "no space left, in the background", "a file where the folder was"],
)
def test_a_checkpoint_that_cannot_be_written_fails_the_run_in_one_line(data, tmp_path, event, ranks, words):
    run_dir = tmp_path / "run"
    with pytest.raises(
        RankFailed, match=rf"RunFailed: the checkpoint of step 2 cannot be written below {run_dir}/chec"
    ):
        run_ranks(train_hit, ranks, event, "update 2", 0, ranks, run_dir, data, *SAVES, *words)
    assert last(run_dir)["event"] == "failed" and "step 2 cannot be written" in last(run_dir)["reason"]
    assert json.loads((run_dir / "status.json").read_text())["exit_code"] == 1


def test_a_run_whose_directory_is_removed_does_not_train_on_into_nowhere(data, tmp_path):
    run_dir = tmp_path / "run"
    with pytest.raises(RankFailed, match=r"RunFailed: the run directory .* is gone"):
        run_ranks(train_hit, 1, "run directory removed", "update 2", 0, 1, run_dir, data, *SAVES)
    assert not run_dir.exists()


def test_a_fault_of_the_program_is_the_last_word_of_the_log(data, tmp_path):
    run_dir = tmp_path / "run"
    with pytest.raises(RankFailed, match="ZeroDivisionError: a fault of the program"):
        run_ranks(train_hit, 1, "program fault", "update 2", 0, 1, run_dir, data, *SAVES)
    assert (last(run_dir)["event"], last(run_dir)["reason"]) == ("failed", "a fault of the program")


def test_a_refused_run_leaves_a_directory_as_it_was(data, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RankFailed, match="RunRefused: cannot write"):
        run_ranks(train_on, 1, 1, tmp_path, data, "logger.tensorboard_dir=/proc/nowhere/tb")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_status_of_an_older_session_is_not_taken_for_that_of_a_killed_one(tmp_path):
    (tmp_path / "status.json").write_text("{}")
    words = ["dataset.seq_length=64", "scheduler.lr_warmup_iters=0"]
    resolved = resolve(Selection(recipe="vanilla_gpt_pretrain_config"), words, world_size=1, device="cpu")
    directory.create(tmp_path, directory.with_paths(resolved.config, tmp_path))
    assert not (tmp_path / "status.json").exists()
