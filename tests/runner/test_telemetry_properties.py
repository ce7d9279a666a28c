"""Whatever is attempted, the log adds up."""

import json
import math
import shutil
import tempfile
from dataclasses import astuple
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runner.telemetry_run import TOKENS, applied, records, session, skipped

from trainwright.metrics_audit.all_sessions import summarize_all
from trainwright.metrics_audit.audit import InvalidRun, summarize
from trainwright.runner.telemetry import Totals

seconds = st.floats(1e-6, 1e6)
norms = st.none() | st.floats(0, 1e300) | st.sampled_from([math.nan, math.inf])
successes = st.builds(
    applied,
    st.floats(allow_nan=False, allow_infinity=False),
    grad_norm=norms,
    clipped=st.booleans(),
    seconds=seconds,
    lr=st.floats(0, 1),
)
skips = st.builds(skipped, grad_norm=norms, seconds=seconds)
happenings = st.lists(
    successes | skips | st.sampled_from(["checkpoint", "save", "saved", "validation", "profiled"]), max_size=30
)
sessions = st.lists(
    st.tuples(happenings, st.sampled_from(["finish", "interrupt", "fail", "crash"])), min_size=1, max_size=4
)


def live(run_dir, log_interval, start, events, ending):
    """One session; returns the point that its last complete checkpoint holds, or the one that it started from."""
    restored, saving = start, None
    with session(run_dir, f"logger.log_interval={log_interval}", start=astuple(start)) as telemetry:
        for index, event in enumerate(events):
            if event == "checkpoint" or (event == "saved" and saving):
                snapshot = telemetry.snapshot() if event == "checkpoint" else saving
                telemetry.checkpoint(run_dir / "checkpoints", 0.1, snapshot)
                restored, saving = snapshot.point, None
            elif event == "save" and index and getattr(events[index - 1], "applied", False):
                # As the loop does it: a save in the background begins after a success.
                saving = telemetry.snapshot()
            elif event == "validation":
                telemetry.validation(1.0, 0.1)
            elif event == "profiled":
                telemetry.profiled(0.1)
            elif not isinstance(event, str):
                telemetry.attempt(event)
        if ending == "interrupt":
            restored = telemetry.snapshot().point
            telemetry.checkpoint(run_dir / "checkpoints", 0.1)
        if ending != "crash":
            getattr(telemetry, ending)(*([] if ending == "finish" else ["some reason"]))
        assert telemetry.totals.tokens == start.tokens + TOKENS * sum(not isinstance(event, str) for event in events)
    return restored


@settings(max_examples=40)
@given(st.integers(1, 5), sessions)
def test_the_audit_accepts_every_session_with_a_window_and_counts_what_was_logged(log_interval, lives):
    run_dir = Path(tempfile.mkdtemp())
    start = Totals(0, 0, 0)
    try:
        for events, ending in lives:
            restored = live(run_dir, log_interval, start, events, ending)
            check(run_dir, start, [event for event in events if not isinstance(event, str)], ending)
            start = restored
        if records(run_dir, "train"):
            # Every start is a point that an earlier session logged, and no session contradicts another.
            assert summarize_all(run_dir)["totals"]["restarts"] == len(lives) - 1
    finally:
        shutil.rmtree(run_dir)


def check(run_dir, start, attempts, ending):
    session_id = json.loads((run_dir / "run.json").read_text())["sessions"][-1]["session_id"]
    windows = [record for record in records(run_dir, "train") if record["session_id"] == session_id]
    if not windows:
        with pytest.raises(InvalidRun, match="no train record"):
            summarize(run_dir)
        return
    summary = summarize(run_dir)
    assert summary["completed"] == (ending == "finish")
    assert summary["tokens"] == TOKENS * (summary["updates"] + summary["skipped_updates"])
    assert summary["last_step"] == start.step + summary["updates"]
    logged = attempts[: summary["updates"] + summary["skipped_updates"]]
    successful = [attempt for attempt in logged if attempt.applied]
    assert summary["updates"] == len(successful) and summary["skipped_updates"] == len(logged) - len(successful)
    if ending != "crash":
        # Only skips at the very end are in no window; an interrupted session holds them as pending.
        assert not any(attempt.applied for attempt in attempts[len(logged) :])
    norms = [attempt.grad_norm for attempt in logged if attempt.grad_norm is not None]
    assert summary["gradient_norm_max"] == max((norm for norm in norms if math.isfinite(norm)), default=0.0)
    assert summary["nonfinite_gradient_norms"] == sum(not math.isfinite(norm) for norm in norms)
    clipped = sum(attempt.clipped for attempt in successful)
    assert summary["gradient_clipped_fraction"] == pytest.approx(clipped / len(successful))
    assert min(window["train_seconds"] for window in windows) > 0
    losses = [attempt.loss for attempt in successful]
    for window in windows:
        own, losses = losses[: window["updates"]], losses[window["updates"] :]
        exact = float(sum(map(Fraction, own)) / len(own))
        assert window["loss"] == pytest.approx(exact, rel=1e-12, abs=1e-14 * max(map(abs, own)))
    traced(run_dir, session_id, attempts, start)


def traced(run_dir, session_id, attempts, start):
    """Each point that the log offers to a next session is the start plus the attempts made before it."""
    for record in records(run_dir):
        if record["session_id"] != session_id or "pending" not in record:
            continue
        total, pending = record["total"], record["pending"]
        made = (total["tokens"] + pending["tokens"] - start.tokens) // TOKENS
        assert total["step"] - start.step == sum(attempt.applied for attempt in attempts[:made])
        skips = sum(not attempt.applied for attempt in attempts[:made])
        assert total["skipped_updates"] + pending["skipped_updates"] - start.skipped_updates == skips
