"""What a session's log holds, against numbers worked out by hand, and what the audit makes of it."""

import math

import pytest
from tests.runner.telemetry_run import TOKENS, Meter, applied, records, session, skipped

from trainwright.metrics_audit.all_sessions import summarize_all
from trainwright.metrics_audit.audit import InvalidRun, summarize
from trainwright.runner.errors import RunFailed
from trainwright.runner.telemetry import Pending, Totals

NAN, INF = math.nan, math.inf


def whole_run(run_dir):
    """Ten updates in windows of four, skips before, between and after, norms that are not finite, two clipped."""
    with session(run_dir, device=Meter((500, 900), (3000, 5000), (700, 800))) as telemetry:
        telemetry.attempt(skipped(grad_norm=INF))
        telemetry.attempt(applied(8.0, grad_norm=4.0, clipped=True, seconds=2.0))
        telemetry.attempt(applied(7.0, grad_norm=2.0, clipped=True))
        telemetry.attempt(skipped(grad_norm=NAN))
        telemetry.attempt(applied(6.0, grad_norm=0.5))
        telemetry.attempt(applied(5.0, grad_norm=0.5))
        telemetry.validation(5.5, 1.0)
        for loss in (4.0, 3.0, 3.0, 2.0):
            telemetry.attempt(applied(loss, grad_norm=0.25, lr=0.0005))
        telemetry.attempt(skipped(grad_norm=None))
        telemetry.attempt(applied(1.5, grad_norm=0.75))
        telemetry.attempt(applied(0.5, grad_norm=0.25))
        telemetry.finish()


def test_windows_hold_what_was_attempted_in_them(tmp_path):
    whole_run(tmp_path)
    first, second, third = records(tmp_path, "train")
    assert (first["step"], first["updates"], first["skipped_updates"], first["attempted_updates"]) == (4, 4, 2, 6)
    assert (second["step"], second["updates"], second["skipped_updates"]) == (8, 4, 0)
    assert (third["step"], third["updates"], third["skipped_updates"]) == (10, 2, 1)
    assert [window["tokens"] for window in (first, second, third)] == [6 * TOKENS, 4 * TOKENS, 3 * TOKENS]
    assert first["supervised_tokens"] == 6 * (TOKENS - 4)
    assert [window["train_seconds"] for window in (first, second, third)] == [4.5, 2.0, 1.5]
    assert [window["loss"] for window in (first, second, third)] == [6.5, 3.0, 1.0]
    assert (first["grad_norm"], first["grad_norm_max"], first["nonfinite_grad_norms"]) == (1.75, 4.0, 2)
    assert (third["grad_norm"], third["grad_norm_max"], third["nonfinite_grad_norms"]) == (0.5, 0.75, 0)
    assert [window["gradient_clipped_fraction"] for window in (first, second, third)] == [0.5, 0.0, 0.0]
    assert first["learning_rates"] == {"default": 0.001} and second["learning_rates"] == {"default": 0.0005}
    assert third["total"] == {"step": 10, "tokens": 13 * TOKENS, "skipped_updates": 3}


def test_the_audit_sums_the_run_as_by_hand(tmp_path):
    whole_run(tmp_path)
    summary = summarize(tmp_path, after_step=4, expect_step=10)
    assert summary["completed"] and summary["start_step"] == 0 and summary["last_step"] == 10
    assert (summary["updates"], summary["tokens"], summary["skipped_updates"]) == (10, 13 * TOKENS, 3)
    assert (summary["first_loss"], summary["last_loss"]) == (6.5, 1.0)
    assert (summary["gradient_norm_max"], summary["nonfinite_gradient_norms"]) == (4.0, 2)
    assert summary["gradient_clipped_fraction"] == 0.2
    assert summary["steady_train_tokens_per_second"] == 7 * TOKENS / 3.5
    assert summary["memory"] == {"peak_allocated_bytes": 3000, "peak_reserved_bytes": 5000}
    assert summary["qk_clip"] == {"threshold": None, "max_logit": None, "clipped_fraction": None}
    assert not summary["profiled"]
    wall = summary["session_wall_tokens_per_second"]
    assert 0 < wall <= 13 * TOKENS / 10.0


def test_the_manifest_says_what_runs(tmp_path):
    whole_run(tmp_path)
    summary = summarize(tmp_path)
    recipe, hardware = summary["recipe"], summary["hardware"]
    assert (recipe["name"], recipe["mode"]) == ("vanilla_gpt_pretrain_config", "pretrain")
    assert (recipe["batch_size"], recipe["seq_len"], recipe["gradient_accumulation_steps"]) == (2, 16, 2)
    assert (hardware["device"], hardware["world_size"]) == ("cpu", 2)
    assert summary["optimizers"] == ["adam"]


def test_each_record_has_the_session_clock_and_the_memory_peaks_since_the_one_before(tmp_path):
    peaks = [(100, 200)] * 3 + [(900, 300)] + [(100, 800)] + [(50, 60)]
    with session(tmp_path, device=Meter(*peaks), elapsed=20.0) as telemetry:
        for loss in (4.0, 3.0, 2.0, 1.0):
            telemetry.attempt(applied(loss))
        telemetry.profiled(1.5)
        telemetry.validation(2.0, 0.5)
    train, validation = records(tmp_path)[:2]
    assert train["memory"] == {"allocated_bytes": 900, "reserved_bytes": 800}
    assert validation["memory"] == {"allocated_bytes": 50, "reserved_bytes": 60}
    clock = train["session"]
    assert clock["tokens"] == 4 * TOKENS and clock["elapsed_seconds"] >= 20.0
    assert clock["tokens_per_second"] == pytest.approx(4 * TOKENS / clock["elapsed_seconds"])
    assert (clock["profiling_seconds"], validation["session"]["profiling_seconds"]) == (0.0, 1.5)


def test_a_checkpoint_ends_the_window_and_a_resume_starts_where_it_says(tmp_path):
    with session(tmp_path) as telemetry:
        telemetry.attempt(applied(3.0))
        telemetry.attempt(skipped())
        telemetry.checkpoint(tmp_path / "checkpoints" / "step_1", 0.25)
        telemetry.attempt(skipped())
        telemetry.attempt(skipped())
        telemetry.checkpoint(tmp_path / "checkpoints" / "step_1b", 0.25)
        telemetry.interrupt("SIGTERM")
        assert telemetry.totals == Totals(1, 4 * TOKENS, 3)
        assert telemetry.pending == Pending(2, 2 * TOKENS)
    first, second = records(tmp_path, "checkpoint")
    total = {"step": 1, "tokens": 2 * TOKENS, "skipped_updates": 1}
    assert (first["path"], first["seconds"], first["step"]) == ("checkpoints/step_1", 0.25, 1)
    assert first["total"] == total == first["restores"] and first["pending"] == {"skipped_updates": 0, "tokens": 0}
    assert second["total"] == total and second["pending"] == {"skipped_updates": 2, "tokens": 2 * TOKENS}
    assert second["restores"] == {"step": 1, "tokens": 4 * TOKENS, "skipped_updates": 3}
    stop = records(tmp_path)[-1]
    assert (stop["event"], stop["reason"]) == ("session_interrupted", "SIGTERM")
    assert (stop["total"], stop["pending"]) == (second["total"], second["pending"])
    with session(tmp_path, start=(1, 4 * TOKENS, 3)) as telemetry:
        for loss in range(9):
            telemetry.attempt(applied(float(loss)))
        telemetry.finish()
    summary = summarize(tmp_path, expect_step=10)
    assert (summary["sessions"], summary["start_step"], summary["updates"]) == (2, 1, 9)
    assert summarize_all(tmp_path)["totals"]["tokens_lost"] == 0
    # The grid of steps is the run's, not the session's.
    assert [record["step"] for record in records(tmp_path, "train")] == [1, 4, 8, 10]


def test_a_checkpoint_that_completes_later_says_what_it_restores(tmp_path):
    with session(tmp_path) as telemetry:
        telemetry.attempt(applied(3.0))
        point = telemetry.snapshot()
        telemetry.attempt(applied(2.0))
        telemetry.attempt(applied(1.0))
        telemetry.checkpoint(tmp_path / "checkpoints" / "step_1", 3.0, point)
        telemetry.finish()
    checkpoint = records(tmp_path, "checkpoint")[0]
    assert checkpoint["restores"] == {"step": 1, "tokens": TOKENS, "skipped_updates": 0}
    assert checkpoint["total"] == {"step": 3, "tokens": 3 * TOKENS, "skipped_updates": 0}
    with session(tmp_path, start=(1, TOKENS, 0)) as telemetry:
        telemetry.attempt(applied(2.0))
    assert summarize_all(tmp_path)["totals"]["tokens_lost"] == 2 * TOKENS


def test_a_window_without_a_success_is_not_written(tmp_path):
    with session(tmp_path, "logger.log_interval=1") as telemetry:
        for _ in range(5):
            telemetry.attempt(skipped())
        telemetry.checkpoint(tmp_path / "c", 0.1)
        assert records(tmp_path, "train") == []
        telemetry.attempt(applied(2.0))
    (window,) = records(tmp_path, "train")
    assert (window["updates"], window["skipped_updates"], window["train_seconds"]) == (1, 5, 3.0)


def test_a_window_whose_norms_are_all_unknown_says_so_by_its_count(tmp_path):
    with session(tmp_path, "logger.log_interval=1") as telemetry:
        telemetry.attempt(applied(2.0, grad_norm=NAN))
        telemetry.finish()
    (window,) = records(tmp_path, "train")
    assert (window["grad_norm"], window["grad_norm_max"], window["nonfinite_grad_norms"]) == (0.0, 0.0, 1)
    assert summarize(tmp_path)["nonfinite_gradient_norms"] == 1


def test_a_validation_loss_that_is_not_finite_makes_the_audit_refuse(tmp_path):
    with session(tmp_path) as telemetry:
        telemetry.attempt(applied(2.0))
        telemetry.validation(NAN, 1.0)
        telemetry.finish()
    assert records(tmp_path, "val")[0]["loss"] is None
    with pytest.raises(InvalidRun, match="loss"):
        summarize(tmp_path)


def test_an_exception_leaves_a_failed_record_with_the_last_window_and_no_end(tmp_path):
    with pytest.raises(RunFailed, match="diverged"), session(tmp_path) as telemetry:
        telemetry.attempt(applied(2.0))
        telemetry.attempt(skipped())
        raise RunFailed("the run diverged")
    train, failed = records(tmp_path)
    assert (train["event"], train["updates"], train["skipped_updates"]) == ("train", 1, 1)
    assert (failed["event"], failed["reason"], failed["step"]) == ("failed", "the run diverged", 1)
    assert failed["total"] == train["total"]
    assert not summarize(tmp_path)["completed"]


def test_an_end_is_written_once(tmp_path):
    with pytest.raises(ValueError, match="after the end"), session(tmp_path) as telemetry:
        telemetry.attempt(applied(2.0))
        telemetry.finish()
        raise ValueError("after the end")
    assert [record["event"] for record in records(tmp_path)] == ["train", "session_end"]


@pytest.mark.parametrize(
    ("attempt", "complaint"),
    [
        (applied(NAN), "loss nan"),
        (applied(None), "loss None"),
        (applied(1.0, seconds=0.0), "0.0 seconds"),
        (applied(1.0, seconds=NAN), "nan seconds"),
        (applied(1.0, learning_rates={}), "learning rate"),
    ],
)
def test_an_attempt_that_cannot_be_true_is_refused_and_not_counted(tmp_path, attempt, complaint):
    with session(tmp_path) as telemetry:
        with pytest.raises(ValueError, match=complaint):
            telemetry.attempt(attempt)
        assert telemetry.totals == Totals(0, 0, 0)


def test_an_attempt_of_another_batch_size_is_refused(tmp_path):
    with (
        session(tmp_path, "train.global_batch_size=8") as telemetry,
        pytest.raises(ValueError, match=r"64 tokens.*128"),
    ):
        telemetry.attempt(applied(1.0))


def test_a_full_disk_is_a_failed_run_in_one_line(tmp_path, monkeypatch):
    def full(descriptor, data):
        raise OSError(28, "No space left on device")

    with session(tmp_path, "logger.log_interval=1") as telemetry:
        telemetry.attempt(applied(3.0))
        with monkeypatch.context() as patch:
            patch.setattr("trainwright.metrics_audit.writer.os.write", full)
            with pytest.raises(RunFailed, match=r"metrics\.jsonl: No space left"):
                telemetry.attempt(applied(2.0))
            telemetry.fail("disk full")
    assert [record["event"] for record in records(tmp_path)] == ["train"]
