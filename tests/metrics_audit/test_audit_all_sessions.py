"""--all-sessions: every session is audited, and each start is one that an earlier session had reached."""

import copy

import pytest

from trainwright.metrics_audit.all_sessions import summarize_all
from trainwright.metrics_audit.audit import InvalidRun, summarize

THIRD = "0003-cccc"


def add_third_session(run, start: tuple[int, int, int]) -> None:
    """A third session of one window of 5 updates, which starts at ``start`` (step, tokens, skipped updates)."""
    step, tokens, skipped = start
    session = copy.deepcopy(run.manifest["sessions"][1])
    session |= {"session_id": THIRD, "start": {"step": step, "tokens": tokens, "skipped_updates": skipped}}
    run.manifest["sessions"].append(session)
    total = {"step": step + 5, "tokens": tokens + 5 * 64, "skipped_updates": skipped}
    window = copy.deepcopy(next(record for record in run.records if record["step"] == 120))
    window |= {"session_id": THIRD, "step": step + 5, "updates": 5, "attempted_updates": 5, "tokens": 5 * 64}
    window |= {"total": total}
    run.records.append(window)


def test_the_totals_are_the_ones_worked_out_on_paper(run, tmp_path):
    """The third session goes back from step 125 (8320 tokens) to the checkpoint at 120 (7936), and trains 320 more."""
    add_third_session(run, (120, 7936, 4))
    result = summarize_all(run.write(tmp_path))
    assert result["run_id"] == "run-a"
    assert [summary["session_id"] for summary in result["sessions"]] == ["0001-aaaa", "0002-bbbb", THIRD]
    assert result["passed_over"] == []
    assert result["totals"] == {
        "restarts": 2,
        "tokens_trained": 7936 + 320,
        "tokens_lost": 8320 - 7936,
        "wall_seconds": 21.0,
    }


def test_each_summary_is_what_the_audit_of_that_session_as_the_last_gives(run, tmp_path):
    result = summarize_all(run.write(tmp_path), after_step=111)
    assert result["sessions"][1] == summarize(tmp_path, after_step=111)
    del run.manifest["sessions"][1]
    first = {**result["sessions"][0], "sessions": 1}
    assert summarize(run.write(tmp_path), after_step=111) == first


def test_pending_attempts_belong_to_the_point_of_a_checkpoint(run, tmp_path):
    """Skipped attempts after the last window are counted by the next session's start."""
    interrupted = {**copy.deepcopy(run.records[5]), "event": "session_interrupted", "reason": "time limit"}
    interrupted["pending"] = {"skipped_updates": 2, "tokens": 128}
    run.records[6:] = [interrupted]
    add_third_session(run, (120, 7936 + 128, 6))
    result = summarize_all(run.write(tmp_path))
    assert result["totals"]["tokens_lost"] == 0
    assert result["totals"]["tokens_trained"] == 7936 + 128 + 320
    run.manifest["sessions"][2]["start"]["tokens"] = 7936
    with pytest.raises(InvalidRun, match=r"line 8: total.tokens is 8384; it must be 8256"):
        summarize_all(run.write(tmp_path))


def test_a_session_may_start_again_where_the_run_began(run, tmp_path):
    """A crash before the first checkpoint loses everything."""
    add_third_session(run, (0, 0, 0))
    totals = summarize_all(run.write(tmp_path))["totals"]
    assert totals["tokens_lost"] == 8320
    assert totals["tokens_trained"] == 320


def test_two_sessions_may_start_from_one_checkpoint(run, tmp_path):
    add_third_session(run, (100, 6528, 2))
    totals = summarize_all(run.write(tmp_path))["totals"]
    assert totals["tokens_lost"] == 8320 - 6528
    assert totals["tokens_trained"] == 6528 + 320


@pytest.mark.parametrize(
    "start", [(120, 7936, 5), (120, 7937, 4), (121, 7936, 4), (119, 7936, 4), (130, 8640, 5), (125, 8320, 4)]
)
def test_a_start_that_no_earlier_session_had_reached_is_refused(run, tmp_path, start):
    add_third_session(run, start)
    with pytest.raises(InvalidRun) as refused:
        summarize_all(run.write(tmp_path))
    step, tokens, skipped = start
    assert str(refused.value) == (
        f"run.json: session '{THIRD}' starts at step {step}, tokens {tokens}, skipped_updates {skipped},"
        " a point that no earlier session logged"
    )


def test_a_point_that_only_a_later_session_logged_does_not_count(run, tmp_path):
    """The second session starts at step 100, which the first must have logged."""
    run.records[:2] = [{**run.records[0], "step": 99, "updates": 99, "attempted_updates": 101, "tokens": 101 * 64}]
    run.records[0]["total"] = {"step": 99, "tokens": 101 * 64, "skipped_updates": 2}
    add_third_session(run, (100, 6528, 2))
    with pytest.raises(InvalidRun, match="session '0002-bbbb' starts at step 100"):
        summarize_all(run.write(tmp_path))


def test_sessions_without_a_window_are_passed_over_and_named(run, tmp_path):
    add_third_session(run, (120, 7936, 4))
    run.records.pop()
    result = summarize_all(run.write(tmp_path))
    assert [summary["session_id"] for summary in result["sessions"]] == ["0001-aaaa", "0002-bbbb"]
    assert result["passed_over"] == [{"session_id": THIRD, "reason": "the session has no train record"}]
    assert result["totals"]["restarts"] == 2


def test_a_run_without_any_window_is_refused(run, tmp_path):
    run.records = [record for record in run.records if record["event"] == "val"]
    run.manifest["sessions"][1]["start"] = {"step": 0, "tokens": 0, "skipped_updates": 0}
    with pytest.raises(InvalidRun, match=r"^metrics.jsonl: no session has a train record$"):
        summarize_all(run.write(tmp_path))


def test_expect_step_is_asked_of_the_last_session(run, tmp_path):
    assert summarize_all(run.write(tmp_path), expect_step=125)["totals"]["restarts"] == 1
    add_third_session(run, (125, 8320, 5))
    with pytest.raises(InvalidRun, match="expected at step 125, but the session has no session_end"):
        summarize_all(run.write(tmp_path), expect_step=125)


def _break(path):
    def change(run):
        holder = run
        *parents, key, value = path
        for parent in parents:
            holder = getattr(holder, parent) if isinstance(parent, str) and hasattr(holder, parent) else holder[parent]
        holder[key] = value

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_break(["records", 0, "loss", "none"]), "metrics.jsonl line 1: loss is 'none'"),
        (_break(["records", 1, "total", "tokens", 1]), "metrics.jsonl line 2: total.tokens is 1"),
        (_break(["records", 1, "pending", None]), "metrics.jsonl line 2: pending is null"),
        (_break(["records", 5, "pending", "tokens", -1]), "metrics.jsonl line 6: pending.tokens is -1"),
        (_break(["records", 5, "total", {}]), "metrics.jsonl line 6: total.step is missing"),
        (_break(["records", 0, "run_id", "b"]), "metrics.jsonl line 1: run_id is 'b'"),
        (_break(["records", 0, "session_id", "x"]), "metrics.jsonl line 1: session_id 'x' is not in run.json"),
        (
            _break(["records", 3, "session_id", "0001-aaaa"]),
            "metrics.jsonl line 4: a record of session '0001-aaaa' stands",
        ),
        (_break(["manifest", "sessions", 0, {}]), "run.json: sessions[0].session_id is missing"),
        (_break(["manifest", "sessions", 0, "recipe", None]), "run.json: sessions[0].recipe is null"),
    ],
)
def test_faults_in_any_session_are_refused(run, tmp_path, change, sentence):
    """The audit of the last session alone passes over all of these but the window filed elsewhere."""
    change(run)
    with pytest.raises(InvalidRun) as refused:
        summarize_all(run.write(tmp_path))
    assert str(refused.value).startswith(sentence)


def test_memory_does_not_grow_with_the_points_logged(run, tmp_path):
    """Only points that some session starts from are kept."""
    from trainwright.metrics_audit.all_sessions import _Chain
    from trainwright.metrics_audit.session import SessionAudit

    chain = _Chain([SessionAudit("run-a", session, 0) for session in run.manifest["sessions"]])
    for record in run.records:
        chain.feed(record)
    assert len(chain.logged_by) == 2
