"""Whatever the writer is given that is a run, the audit accepts, and sums up as a slow second opinion does."""

import json
import shutil
import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.metrics_audit.all_sessions import summarize_all
from trainwright.metrics_audit.audit import InvalidRun, summarize
from trainwright.metrics_audit.writer import SessionLog

amounts = st.floats(0, 1e6, allow_nan=False) | st.integers(0, 10**6)
losses = st.floats(-1e6, 1e6, allow_nan=False) | st.integers(-(10**6), 10**6)
counts = st.integers(0, 10**12)
names = st.text(max_size=20)
clocks = st.fixed_dictionaries(
    {"elapsed_seconds": amounts, "tokens": counts, "tokens_per_second": amounts, "profiling_seconds": amounts}
)
memories = st.fixed_dictionaries({"allocated_bytes": counts, "reserved_bytes": counts})
recipes = st.fixed_dictionaries(
    {
        "name": names,
        "mode": st.sampled_from(["pretrain", "sft", "lora"]),
        "batch_size": st.integers(1, 4096),
        "seq_len": st.integers(1, 10**6),
        "gradient_accumulation_steps": st.integers(1, 1024),
        "qk_clip_threshold": st.none() | st.floats(1, 200) | st.integers(1, 200),
    },
    optional={"note": st.recursive(names | amounts | st.none(), lambda inner: st.lists(inner, max_size=3))},
)
hardware = st.fixed_dictionaries({"device": names, "world_size": st.integers(1, 9999), "nodes": st.integers(1, 999)})


@st.composite
def windows(draw):
    """What a window is free in; the rest follows from the run."""
    observed = draw(st.integers(0, 1000))
    return {
        "updates": draw(st.integers(1, 50)),
        "skipped_updates": draw(st.integers(0, 5)),
        "train_seconds": draw(st.floats(1e-6, 1e6)),
        "loss": draw(losses),
        "learning_rates": draw(st.dictionaries(names, amounts, min_size=1, max_size=3)),
        "grad_norm": draw(amounts),
        "grad_norm_max": draw(amounts),
        "nonfinite_grad_norms": draw(st.integers(0, 9)),
        "gradient_clipped_fraction": draw(st.floats(0, 1)),
        "qk_clip": {
            "max_logit": draw(losses) if observed else None,
            "clipped_head_updates": draw(st.integers(0, observed)),
            "observed_head_updates": observed,
        },
    }


events = st.one_of(
    st.tuples(st.just("train"), windows()),
    st.tuples(st.just("train"), windows()),
    st.tuples(st.just("val"), st.fixed_dictionaries({"loss": losses})),
    st.tuples(st.just("checkpoint"), st.fixed_dictionaries({"path": names, "seconds": amounts})),
    st.tuples(st.sampled_from(["eval_harness", "note"]), st.fixed_dictionaries({"anything": names})),
)
sessions = st.fixed_dictionaries(
    {
        "recipe": recipes,
        "hardware": hardware,
        "optimizers": st.lists(names, max_size=2),
        "events": st.lists(st.tuples(events, clocks, memories), max_size=6),
        "ends": st.sampled_from(["session_end", "session_interrupted", None]),
        "last": st.tuples(clocks, memories),
    }
)


def play(directory: Path, script: list[dict]) -> None:
    """Write the sessions of a script as a trainer would, each starting where the one before stood."""
    point = {"step": 0, "tokens": 0, "skipped_updates": 0}
    for session in script:
        with SessionLog.open(directory, run_id="run-ä") as log:
            log.start_session(start=point, **{key: session[key] for key in ("recipe", "hardware", "optimizers")})
            for (event, own), clock, memory in session["events"]:
                if event == "train":
                    own, point = complete(own, session["recipe"], point)
                if event == "checkpoint":
                    own = own | {"total": point, "pending": {"skipped_updates": 0, "tokens": 0}}
                log.write(event, step=point["step"], session=clock, memory=memory, **own)
            if session["ends"] is not None:
                own = {"pending": {"skipped_updates": 0, "tokens": 0}, "reason": "time limit"}
                own = {"total": point} | (own if session["ends"] == "session_interrupted" else {})
                clock, memory = session["last"]
                log.write(session["ends"], step=point["step"], session=clock, memory=memory, **own)


def complete(own: dict, recipe: dict, point: dict) -> tuple[dict, dict]:
    """Fill in what a window owes to the run, and say where the run stands after it."""
    attempted = own["updates"] + own["skipped_updates"]
    tokens = recipe["batch_size"] * recipe["seq_len"] * recipe["gradient_accumulation_steps"] * attempted
    point = {
        "step": point["step"] + own["updates"],
        "tokens": point["tokens"] + tokens,
        "skipped_updates": point["skipped_updates"] + own["skipped_updates"],
    }
    qk_clip = own["qk_clip"] | {"threshold": recipe["qk_clip_threshold"]}
    return own | {"attempted_updates": attempted, "tokens": tokens, "total": point, "qk_clip": qk_clip}, point


def second_opinion(directory: Path, after_step: int) -> dict:
    """The summary again, from all records at once and in exact fractions."""
    manifest = json.loads((directory / "run.json").read_bytes())
    session = manifest["sessions"][-1]
    every = [json.loads(line) for line in (directory / "metrics.jsonl").read_bytes().split(b"\n") if line]
    mine = [record for record in every if record["session_id"] == session["session_id"]]
    train = [record for record in mine if record["event"] == "train"]
    updates = sum(record["updates"] for record in train)
    observed = sum(record["qk_clip"]["observed_head_updates"] for record in train)
    clipped = sum(record["qk_clip"]["clipped_head_updates"] for record in train)
    logits = [record["qk_clip"]["max_logit"] for record in train if record["qk_clip"]["max_logit"] is not None]
    steady = [record for record in train if record["step"] - record["updates"] >= after_step]
    seconds = sum(Fraction(record["train_seconds"]) for record in steady)
    fractions = sum(Fraction(record["gradient_clipped_fraction"]) * record["updates"] for record in train)
    return {
        "run_id": manifest["run_id"],
        "session_id": session["session_id"],
        "sessions": len(manifest["sessions"]),
        "start_step": session["start"]["step"],
        "last_step": train[-1]["step"],
        "completed": any(record["event"] == "session_end" for record in mine),
        "updates": updates,
        "tokens": sum(record["tokens"] for record in train),
        "skipped_updates": sum(record["skipped_updates"] for record in train),
        "recipe": session["recipe"],
        "hardware": session["hardware"],
        "optimizers": session["optimizers"],
        "first_loss": train[0]["loss"],
        "last_loss": train[-1]["loss"],
        "gradient_norm_max": max(record["grad_norm_max"] for record in train),
        "nonfinite_gradient_norms": sum(record["nonfinite_grad_norms"] for record in train),
        "gradient_clipped_fraction": pytest.approx(float(fractions / updates)),
        "qk_clip": {
            "threshold": session["recipe"]["qk_clip_threshold"],
            "max_logit": max(logits, default=None),
            "clipped_fraction": pytest.approx(clipped / observed) if observed else None,
        },
        "steady_train_tokens_per_second": (
            pytest.approx(float(sum(record["tokens"] for record in steady) / seconds)) if steady else None
        ),
        "session_wall_tokens_per_second": mine[-1]["session"]["tokens_per_second"],
        "memory": {
            "peak_allocated_bytes": max(record["memory"]["allocated_bytes"] for record in mine),
            "peak_reserved_bytes": max(record["memory"]["reserved_bytes"] for record in mine),
        },
        "profiled": mine[-1]["session"]["profiling_seconds"] > 0,
    }


@given(script=st.lists(sessions, min_size=1, max_size=3), after_step=st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_any_log_of_the_writer_is_accepted_and_summed_as_by_a_second_opinion(script, after_step):
    directory = Path(tempfile.mkdtemp())
    try:
        play(directory, script)
        if any(event == "train" for (event, _), _, _ in script[-1]["events"]):
            assert summarize(directory, after_step=after_step) == second_opinion(directory, after_step)
        else:
            with pytest.raises(InvalidRun, match="no train record"):
                summarize(directory)
        _require_totals(directory, script)
    finally:
        shutil.rmtree(directory)


def _require_totals(directory: Path, script: list[dict]) -> None:
    """All sessions of such a run hang together, and none of its tokens is lost."""
    trains = [[own for (event, own), _, _ in session["events"] if event == "train"] for session in script]
    if not any(trains):
        return
    result = summarize_all(directory)
    assert len(result["sessions"]) == sum(map(bool, trains))
    assert len(result["passed_over"]) == sum(not train for train in trains)
    assert result["totals"]["restarts"] == len(script) - 1
    assert result["totals"]["tokens_lost"] == 0
    assert result["totals"]["tokens_trained"] == sum(summary["tokens"] for summary in result["sessions"])
