"""Every field of every record and of the manifest, corrupted in every way that its type allows.

Each corruption is refused with its place, or listed in HARMLESS with the reason why it may pass; what is listed must
leave the summary as it was, but for values that nothing else in the log determines.
"""

import json
from collections.abc import Iterator

import pytest

from trainwright.metrics_audit.audit import InvalidRun, summarize

HUGE = "1" + "0" * 400
ABSURD = "1" * 5000
NOT_NUMBERS = ["missing", "null", '"5"', "true", "false", "[5]", "{}", "NaN", "Infinity", "-Infinity", ABSURD]
COUNT = [*NOT_NUMBERS, "-1", "5.0", "1e0", "1e999", str(2**63), HUGE, "off by one"]
AMOUNT = [*NOT_NUMBERS, "-1", "-0.5", "-1e-300", "1e999", "-1e999", HUGE]
NUMBER = [*NOT_NUMBERS, "1e999", "-1e999", HUGE, "-" + HUGE]
OPTIONAL = [kind for kind in NUMBER if kind != "null"]
TEXT = ["missing", "null", "5", "true", '["a"]', "{}", "NaN", '"\\ud800"', '"a\\u2028b"']
OBJECT = ["missing", "null", '"a"', "5", "true", "[]", "{}", "NaN"]

COMMON = {
    "event": TEXT,
    "run_id": TEXT,
    "session_id": TEXT,
    "time": AMOUNT,
    "step": COUNT,
    "session": OBJECT,
    "session.elapsed_seconds": AMOUNT,
    "session.tokens": COUNT,
    "session.tokens_per_second": AMOUNT,
    "session.profiling_seconds": AMOUNT,
    "memory": OBJECT,
    "memory.allocated_bytes": COUNT,
    "memory.reserved_bytes": COUNT,
}
TOTAL = {"total": OBJECT, "total.step": COUNT, "total.tokens": COUNT, "total.skipped_updates": COUNT}
TRAIN = {
    **COMMON,
    "updates": COUNT,
    "skipped_updates": COUNT,
    "attempted_updates": COUNT,
    "tokens": COUNT,
    "train_seconds": [*AMOUNT, "0", "0.0"],
    "loss": NUMBER,
    "learning_rates": OBJECT,
    "learning_rates.default": AMOUNT,
    "grad_norm": AMOUNT,
    "grad_norm_max": AMOUNT,
    "nonfinite_grad_norms": COUNT,
    "gradient_clipped_fraction": [*AMOUNT, "1.0000001", "2"],
    "qk_clip": OBJECT,
    "qk_clip.threshold": [*NUMBER, "50.5", "-50.0"],
    "qk_clip.max_logit": OPTIONAL,
    "qk_clip.clipped_head_updates": [*COUNT, "41"],
    "qk_clip.observed_head_updates": [*COUNT, "0"],
    **TOTAL,
}
SESSION = {
    "session_id": TEXT,
    "started_at": TEXT,
    "start": OBJECT,
    "start.step": COUNT,
    "start.tokens": COUNT,
    "start.skipped_updates": COUNT,
    "recipe": OBJECT,
    "recipe.name": TEXT,
    "recipe.mode": TEXT,
    "recipe.batch_size": [*COUNT, "0"],
    "recipe.seq_len": [*COUNT, "0"],
    "recipe.gradient_accumulation_steps": [*COUNT, "0"],
    "recipe.qk_clip_threshold": NUMBER,
    "hardware": OBJECT,
    "hardware.device": TEXT,
    "hardware.world_size": [*COUNT, "0"],
    "hardware.nodes": [*COUNT, "0"],
    "optimizers": ["missing", "null", '"adam"', "5", "{}", "[5]", "[null]", '["adam", true]'],
}
MANIFEST = {
    "schema_version": ["missing", "null", '"1"', "1.0", "true", "0", "2", "[1]", "1e0", "NaN", ABSURD],
    "run_id": TEXT,
    "created_at": TEXT,
    "sessions": [*OBJECT, "[null]", "[5]", "[[]]"],
}

UNUSED = "no figure of the summary uses it, and it stays of its type"
FREE = "a legal value that nothing else in the log determines, as a true one would be"
STEP = "the step of such an event enters no figure; only windows and the end carry the count of updates"
OTHER_EVENT = "an event the format does not know: its own fields are not read, the common ones are checked"
ANY_TEXT = "any string is legal there"

# (line or "session", "manifest"; field; corruption): why it may pass. "*" stands for any.
HARMLESS = {
    ("*", "session.tokens", "off by one"): UNUSED,
    ("*", "memory.allocated_bytes", "off by one"): FREE,
    ("*", "memory.reserved_bytes", "off by one"): FREE,
    ("val", "step", "off by one"): STEP,
    ("checkpoint", "step", "off by one"): STEP,
    ("val", "event", '"\\ud800"'): OTHER_EVENT,
    ("val", "event", '"a\\u2028b"'): OTHER_EVENT,
    ("checkpoint", "event", '"\\ud800"'): OTHER_EVENT,
    ("checkpoint", "event", '"a\\u2028b"'): OTHER_EVENT,
    ("session_end", "event", '"\\ud800"'): OTHER_EVENT + "; the session then counts as not completed",
    ("session_end", "event", '"a\\u2028b"'): OTHER_EVENT + "; the session then counts as not completed",
    ("val", "session_id", '"\\ud800"'): "the line then belongs to no session of the manifest",
    ("val", "session_id", '"a\\u2028b"'): "the line then belongs to no session of the manifest",
    ("checkpoint", "session_id", '"\\ud800"'): "the line then belongs to no session of the manifest",
    ("checkpoint", "session_id", '"a\\u2028b"'): "the line then belongs to no session of the manifest",
    ("session_end", "session_id", '"\\ud800"'): "the session then has no end and counts as not completed",
    ("session_end", "session_id", '"a\\u2028b"'): "the session then has no end and counts as not completed",
    ("train", "nonfinite_grad_norms", "off by one"): FREE,
    ("train", "qk_clip.clipped_head_updates", "off by one"): FREE,
    ("train", "qk_clip.observed_head_updates", "off by one"): FREE,
    ("session", "recipe.name", '"\\ud800"'): ANY_TEXT,
    ("session", "recipe.name", '"a\\u2028b"'): ANY_TEXT,
    ("session", "recipe.mode", '"\\ud800"'): ANY_TEXT,
    ("session", "recipe.mode", '"a\\u2028b"'): ANY_TEXT,
    ("session", "hardware.device", '"\\ud800"'): ANY_TEXT,
    ("session", "hardware.device", '"a\\u2028b"'): ANY_TEXT,
    ("session", "started_at", '"\\ud800"'): ANY_TEXT,
    ("session", "started_at", '"a\\u2028b"'): ANY_TEXT,
    ("manifest", "created_at", '"\\ud800"'): ANY_TEXT,
    ("manifest", "created_at", '"a\\u2028b"'): ANY_TEXT,
    ("session", "hardware.world_size", "off by one"): FREE,
    ("session", "hardware.nodes", "off by one"): FREE,
}
LINE_OF = {"train": 3, "val": 4, "checkpoint": 6, "session_end": 8}


def _cases(table: dict[str, list[str]], *places: str) -> Iterator[tuple[str, str, str]]:
    for place in places:
        for field, kinds in table.items():
            for kind in kinds:
                yield place, field, kind


CASES = [
    *_cases(TRAIN, "train"),
    *_cases({**COMMON, "loss": NUMBER}, "val"),
    *_cases(COMMON, "checkpoint"),
    *_cases({**COMMON, **TOTAL}, "session_end"),
    *_cases(SESSION, "session"),
    *_cases(MANIFEST, "manifest"),
]


def _reason(place: str, field: str, kind: str) -> str | None:
    return HARMLESS.get((place, field, kind)) or HARMLESS.get(("*", field, kind))


def corrupted(document: dict, field: str, kind: str) -> bytes:
    """The document as JSON, with the field gone, one more than it was, or replaced by the JSON text ``kind``."""
    document = json.loads(json.dumps(document))
    *parents, key = field.split(".")
    holder = document
    for parent in parents:
        holder = holder[parent]
    if kind == "missing":
        del holder[key]
        return json.dumps(document).encode()
    if kind == "off by one":
        holder[key] += 1
        return json.dumps(document).encode()
    holder[key] = "@here@"
    return json.dumps(document).replace('"@here@"', kind).encode()


def _write(run, directory, place, field, kind):
    if place in LINE_OF:
        lines = run.lines()
        index = LINE_OF[place] - 1
        lines[index] = corrupted(run.records[index], field, kind) + b"\n"
        return run.write(directory, raw_log=b"".join(lines))
    prefix = "sessions.1." if place == "session" else ""
    document = run.manifest if not prefix else {"s": run.manifest["sessions"][1]}
    raw = corrupted(document, field if not prefix else f"s.{field}", kind)
    if prefix:
        first = json.dumps(run.manifest["sessions"][0]).encode()
        head = json.dumps({**run.manifest, "sessions": []})[:-2].encode()
        raw = head + first + b", " + raw[len('{"s": ') : -1] + b"]}"
    return run.write(directory, raw_manifest=raw)


@pytest.mark.parametrize(("place", "field"), sorted({case[:2] for case in CASES}))
def test_a_corrupted_field_is_refused_with_its_place_or_listed_as_harmless(run, tmp_path, place, field):
    whole = summarize(run.write(tmp_path))
    for kind in [case[2] for case in CASES if case[:2] == (place, field)]:
        directory = _write(run, tmp_path, place, field, kind)
        if _reason(place, field, kind) is None:
            with pytest.raises(InvalidRun) as refused:
                pytest.fail(f"{field} as {kind[:40]} was accepted: {summarize(directory)}")
            _require_place(str(refused.value), place, field)
        else:
            _require_same_summary(summarize(directory), whole, place, field)


def _require_place(sentence: str, place: str, field: str) -> None:
    assert "\n" not in sentence
    assert len(sentence) < 300
    if place in LINE_OF:
        # A window that left the session, or lost its event name, is missed where the count of steps breaks.
        lines = (3, 5) if field in ("event", "session_id") and place == "train" else (LINE_OF[place],)
        assert any(sentence.startswith(f"metrics.jsonl line {line}: ") for line in lines)
    else:
        # A legal manifest that contradicts the log shows in the log's first window, or in there being none.
        assert sentence.startswith(("run.json: ", "metrics.jsonl line 3: ", "metrics.jsonl: "))


CHANGES = {  # what a listed corruption may change in the summary
    "memory.allocated_bytes": {"memory"},
    "memory.reserved_bytes": {"memory"},
    "event": {"memory", "completed"},
    "session_id": {"memory", "completed", "session_wall_tokens_per_second", "profiled"},
    "nonfinite_grad_norms": {"nonfinite_gradient_norms"},
    "qk_clip.clipped_head_updates": {"qk_clip"},
    "qk_clip.observed_head_updates": {"qk_clip"},
    "recipe.name": {"recipe"},
    "recipe.mode": {"recipe"},
    "hardware.device": {"hardware"},
    "hardware.world_size": {"hardware"},
    "hardware.nodes": {"hardware"},
}


def _require_same_summary(found: dict, whole: dict, place: str, field: str) -> None:
    changed = {key for key in whole if found[key] != whole[key]}
    assert changed <= CHANGES.get(field, set())
    assert "completed" not in changed or (place == "session_end" and not found["completed"])


def test_every_listed_harmless_corruption_is_tried():
    """The list of exceptions may not outgrow the table."""
    tried = {case for case in CASES if _reason(*case)}
    assert {key for key in HARMLESS if key[0] != "*"} <= tried
    assert all(any(case[1:] == key[1:] for case in tried) for key in HARMLESS if key[0] == "*")


def test_the_table_is_large():
    assert len(set(CASES)) == len(CASES) > 1000
