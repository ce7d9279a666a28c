"""The summary of the hand-made run, number by number, as worked out on paper."""

import json
import math

import pytest

from trainwright.metrics_audit.audit import InvalidRun, summarize


def test_every_number_is_the_one_worked_out_on_paper(run, tmp_path):
    """Sums over the three windows of the last session: 10 + 10 + 5 updates, 2 + 0 + 1 skipped, 64 tokens an attempt."""
    summary = summarize(run.write(tmp_path))
    assert summary == {
        "run_id": "run-a",
        "session_id": "0002-bbbb",
        "sessions": 2,
        "start_step": 100,
        "last_step": 125,
        "completed": True,
        "updates": 25,
        "tokens": 1792,  # 28 attempts * 64
        "skipped_updates": 3,
        "recipe": run.manifest["sessions"][1]["recipe"],
        "hardware": {"device": "cpu", "world_size": 2, "nodes": 1},
        "optimizers": ["adam"],
        "first_loss": 4.0,
        "last_loss": 2.5,
        "gradient_norm_max": 2.5,
        "nonfinite_gradient_norms": 3,
        "gradient_clipped_fraction": pytest.approx(0.2),  # (0.3 * 10 + 0.1 * 10 + 0.2 * 5) / 25
        "qk_clip": {"threshold": 50.0, "max_logit": 30.25, "clipped_fraction": pytest.approx(4 / 60)},
        "steady_train_tokens_per_second": pytest.approx(298.6666666667),  # 1792 / (3 + 2 + 1)
        "session_wall_tokens_per_second": 256.0,  # the session_end's
        "memory": {"peak_allocated_bytes": 900, "peak_reserved_bytes": 1500},  # the val's, the checkpoint's
        "profiled": True,  # the session_end's profiling_seconds are 0.5
    }


def test_the_keys_stand_in_the_order_of_the_format(run, tmp_path):
    assert " ".join(summarize(run.write(tmp_path))) == (
        "run_id session_id sessions start_step last_step completed updates tokens skipped_updates recipe hardware"
        " optimizers first_loss last_loss gradient_norm_max nonfinite_gradient_norms gradient_clipped_fraction"
        " qk_clip steady_train_tokens_per_second session_wall_tokens_per_second memory profiled"
    )


@pytest.mark.parametrize(
    ("after_step", "rate"),
    [
        (0, 1792 / 6),
        (100, 1792 / 6),  # the first window begins at 100 exactly
        (101, 1024 / 3),  # and is left out whole from 101 on
        (110, 1024 / 3),
        (111, 384 / 1),
        (120, 384 / 1),
        (121, None),
        (10**9, None),
    ],
)
def test_the_warm_up_boundary_takes_whole_windows(run, tmp_path, after_step, rate):
    summary = summarize(run.write(tmp_path), after_step=after_step)
    assert summary["steady_train_tokens_per_second"] == (None if rate is None else pytest.approx(rate))
    assert summary["tokens"] == 1792


def test_without_an_end_the_last_event_gives_the_wall_rate_and_nothing_is_completed(run, tmp_path):
    del run.records[6:]
    run.records[5]["session"] |= {"tokens_per_second": 123.5, "profiling_seconds": 0}
    summary = summarize(run.write(tmp_path))
    assert summary["completed"] is False
    assert summary["last_step"] == 120
    assert summary["session_wall_tokens_per_second"] == 123.5
    assert summary["profiled"] is False


def test_an_unknown_event_counts_for_memory_and_as_the_last_event(run, tmp_path):
    unknown = {**run.records[3], "event": "my_event", "loss": "none", "memory": {"allocated_bytes": 9999}}
    unknown["memory"]["reserved_bytes"] = 1
    unknown["session"] = {**unknown["session"], "tokens_per_second": 77.0}
    run.records[7:] = [unknown]
    summary = summarize(run.write(tmp_path))
    assert summary["memory"]["peak_allocated_bytes"] == 9999
    assert summary["session_wall_tokens_per_second"] == 77.0


def test_qk_clip_is_null_where_nothing_was_observed(run, tmp_path):
    for record in (run.records[2], run.records[4], run.records[6]):
        record["qk_clip"] |= {"max_logit": None, "clipped_head_updates": 0, "observed_head_updates": 0}
    assert summarize(run.write(tmp_path))["qk_clip"] == {
        "threshold": 50.0,
        "max_logit": None,
        "clipped_fraction": None,
    }


def test_negative_losses_and_logits_keep_their_sign(run, tmp_path):
    for index, loss, logit in ((2, -1, -9), (4, -2.5, -7.5), (6, -3, -8)):
        run.records[index]["loss"] = loss
        run.records[index]["qk_clip"]["max_logit"] = logit
    summary = summarize(run.write(tmp_path))
    assert (summary["first_loss"], summary["last_loss"], summary["qk_clip"]["max_logit"]) == (-1, -3, -7.5)


def test_faults_of_other_sessions_records_do_not_concern_the_last(run, tmp_path):
    """Only what makes a line unreadable concerns every session."""
    run.records[0] |= {"loss": "none", "run_id": "another", "step": -7}
    del run.records[1]["memory"]
    assert summarize(run.write(tmp_path))["updates"] == 25


@pytest.mark.parametrize("name", ["after_step", "expect_step"])
@pytest.mark.parametrize("value", [-1, True, False, 1.0, "5", None, 2**64])
def test_steps_must_be_integers_of_at_least_zero(run, tmp_path, name, value):
    if name == "expect_step" and value is None:
        assert summarize(run.write(tmp_path), expect_step=None)["completed"]
        return
    with pytest.raises(InvalidRun, match=rf"^{name} is .*; it must be an integer of at least 0$"):
        summarize(run.write(tmp_path), **{name: value})


def test_expect_step_wants_a_session_end_at_exactly_that_step(run, tmp_path):
    directory = run.write(tmp_path)
    assert summarize(directory, expect_step=125)["completed"]
    for step in (0, 120, 124, 126):
        with pytest.raises(
            InvalidRun, match=f"session_end is expected at step {step}, but the session ended at step 125"
        ):
            summarize(directory, expect_step=step)
    del run.records[7]
    with pytest.raises(InvalidRun, match="the session has no session_end; its last window ends at step 125"):
        summarize(run.write(tmp_path), expect_step=125)


def test_numbers_at_the_edge_of_a_double_give_a_finite_summary_or_a_refusal(run, tmp_path):
    for record in (run.records[2], run.records[4], run.records[6]):
        record["train_seconds"] = 1.7e308
    assert summarize(run.write(tmp_path))["steady_train_tokens_per_second"] == 0.0
    for record in (run.records[2], run.records[4], run.records[6]):
        record["train_seconds"] = 5e-324
    with pytest.raises(InvalidRun, match="too small for a finite rate"):
        summarize(run.write(tmp_path))


def test_the_summary_is_strict_json(run, tmp_path):
    summary = summarize(run.write(tmp_path))
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert all(math.isfinite(value) for value in summary.values() if isinstance(value, float))


def test_auditing_changes_and_adds_no_file(run, tmp_path):
    directory = run.write(tmp_path / "run")
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}
    summarize(directory)
    assert before == {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}
