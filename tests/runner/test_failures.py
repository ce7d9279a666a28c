"""What a run does with numbers that are not finite, and with time that runs out."""

import json

import pytest
from tests.runner import faults
from tests.runner.training import corpus, losses, records, train

from trainwright.metrics_audit.audit import summarize
from trainwright.runner.testing import RankFailed, run_ranks

pytestmark = pytest.mark.distributed


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A corpus."""
    return corpus(tmp_path_factory.mktemp("data"))


def test_a_loss_that_is_not_finite_ends_the_run_before_the_optimizer_step(data, tmp_path):
    run_dir = tmp_path / "run"
    with pytest.raises(RankFailed, match="Diverged: the loss is nan, nothing was applied"):
        run_ranks(faults.train_with_nan_loss, 1, 4, run_dir, data, "checkpoint.save_interval=2")
    assert records(run_dir)[-1]["event"] == "failed" and "the loss is nan" in records(run_dir)[-1]["reason"]
    assert json.loads((run_dir / "status.json").read_text())["exit_code"] == 1
    whole = tmp_path / "whole"
    assert run_ranks(train, 1, whole, data) == [0]
    # The fault gone, the run goes on from its last checkpoint as if nothing had happened.
    assert run_ranks(train, 1, run_dir, data, "checkpoint.save_interval=2") == [0]
    assert losses(run_dir) == losses(whole)


def test_updates_that_are_not_finite_are_skipped_and_counted_when_the_user_says_so(data, tmp_path):
    run_dir = tmp_path / "run"
    assert run_ranks(faults.train_with_nan_loss, 1, 4, run_dir, data, "train.check_for_nan_in_loss=false") == [0]
    summary = summarize(run_dir, expect_step=10)
    assert (summary["updates"], summary["skipped_updates"], summary["nonfinite_gradient_norms"]) == (10, 1, 1)


def test_a_gradient_that_is_not_finite_changes_no_weight(data, tmp_path):
    run_dir = tmp_path / "run"
    assert run_ranks(faults.train_with_infinite_gradient, 2, 3, run_dir, data, "train.train_iters=4") == [0, 0]
    summary = summarize(run_dir, expect_step=4)
    assert (summary["updates"], summary["skipped_updates"]) == (4, 1)


def test_too_many_skipped_updates_in_a_row_end_the_run(data, tmp_path):
    words = ("train.check_for_nan_in_loss=false", "train.max_consecutive_skipped_updates=3")
    with pytest.raises(RankFailed, match="Diverged: 3 updates in a row were skipped"):
        run_ranks(faults.train_with_nan_loss, 1, -1, tmp_path / "run", data, *words)


def test_a_run_stops_in_good_order_before_its_time_is_up(data, tmp_path):
    run_dir = tmp_path / "run"
    assert run_ranks(train, 1, run_dir, data, "train.exit_duration_in_mins=0.02", "train.train_iters=100000") == [75]
    last = records(run_dir)[-1]
    assert last["event"] == "session_interrupted" and last["reason"].startswith("time limit")
    assert (run_dir / "checkpoints" / f"iter_{last['step']:07d}").is_dir()


def test_skipped_updates_use_up_samples_and_the_run_still_gets_all_its_updates(data, tmp_path):
    run_dir = tmp_path / "run"
    assert run_ranks(faults.train_with_nan_loss, 1, 10, run_dir, data, "train.check_for_nan_in_loss=false") == [0]
    assert len(losses(run_dir)) == 10
