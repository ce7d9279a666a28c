"""The shipped JSON Schemas say what the code does, for each field that both can judge alone."""

import json
from typing import Any

import pytest

from trainwright.metrics_audit import names
from trainwright.metrics_audit.__main__ import main
from trainwright.metrics_audit.all_sessions import summarize_all
from trainwright.metrics_audit.audit import InvalidRun, summarize
from trainwright.metrics_audit.schema import SCHEMA_NAMES, schema

TYPES = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
}
CHECKS = {
    "type": lambda value, wanted: any(TYPES[one](value) for one in ([wanted] if isinstance(wanted, str) else wanted)),
    "const": lambda value, wanted: type(value) is type(wanted) and value == wanted,
    "minimum": lambda value, least: not TYPES["number"](value) or value >= least,
    "maximum": lambda value, most: not TYPES["number"](value) or value <= most,
    "exclusiveMinimum": lambda value, bound: not TYPES["number"](value) or value > bound,
    "minItems": lambda value, least: not isinstance(value, list) or len(value) >= least,
    "minProperties": lambda value, least: not isinstance(value, dict) or len(value) >= least,
    "required": lambda value, keys: not isinstance(value, dict) or set(keys) <= set(value),
}
NOTES = {"$schema", "$defs", "title", "description", "then"}


def valid(value: Any, rule: dict[str, Any], root: dict[str, Any]) -> bool:
    """Judge a value by the keywords of JSON Schema that the shipped ones use; any other keyword is an error."""
    for keyword, argument in rule.items():
        if keyword in CHECKS:
            fits = CHECKS[keyword](value, argument)
        elif keyword == "$ref":
            fits = valid(value, root["$defs"][argument.removeprefix("#/$defs/")], root)
        elif keyword == "allOf":
            fits = all(valid(value, part, root) for part in argument)
        elif keyword == "if":
            fits = not valid(value, argument, root) or valid(value, rule["then"], root)
        elif keyword == "items":
            fits = not isinstance(value, list) or all(valid(item, argument, root) for item in value)
        elif keyword == "properties":
            given = value if isinstance(value, dict) else {}
            fits = all(valid(given[key], part, root) for key, part in argument.items() if key in given)
        elif keyword == "additionalProperties":
            given = value if isinstance(value, dict) else {}
            fits = all(valid(item, argument, root) for item in given.values())
        elif keyword in NOTES:
            fits = True
        else:
            pytest.fail(f"unknown keyword {keyword}")
        if not fits:
            return False
    return True


def test_the_hand_made_run_fits_its_schemas(run):
    assert valid(run.manifest, schema("run.json"), schema("run.json"))
    for record in run.records:
        for name in ("metrics.jsonl", record["event"]):
            assert valid(record, schema(name), schema(name))


@pytest.mark.parametrize("name", names.EVENT_KEYS)
def test_an_event_requires_the_keys_that_the_writer_requires(name):
    definitions = schema(name)["$defs"]
    assert sorted(definitions[name]["required"]) == sorted(names.EVENT_KEYS[name])
    assert sorted(definitions["common"]["required"]) == sorted(names.COMMON_KEYS)
    assert set(definitions[name]["required"]) <= set(definitions[name]["properties"])


@pytest.mark.parametrize(
    ("definition", "keys"),
    [("total", names.POINT_KEYS), ("pending", names.PENDING_KEYS)],
)
def test_shared_objects_require_the_keys_of_the_names(definition, keys):
    assert sorted(schema("train")["$defs"][definition]["required"]) == sorted(keys)


def test_inner_objects_require_the_keys_of_the_names():
    common = schema("train")["$defs"]["common"]["properties"]
    assert sorted(common["session"]["required"]) == sorted(names.SESSION_CLOCK_KEYS)
    assert sorted(common["memory"]["required"]) == sorted(names.MEMORY_KEYS)
    assert sorted(schema("train")["$defs"]["train"]["properties"]["qk_clip"]["required"]) == sorted(names.QK_CLIP_KEYS)
    manifest = schema("run.json")
    session = manifest["$defs"]["session"]
    assert sorted(manifest["required"]) == sorted(names.MANIFEST_KEYS)
    assert sorted(session["required"]) == sorted(names.SESSION_KEYS)
    for part, keys in (("start", names.POINT_KEYS), ("recipe", names.RECIPE_KEYS), ("hardware", names.HARDWARE_KEYS)):
        assert sorted(session["properties"][part]["required"]) == sorted(keys)


VALUES = [None, True, "5", -1, -0.5, 0, 0.0, 0.5, 1, 1.5, 2**63 - 1, 2**63, [], [5], ["adam"], {}, {"a": 1}]


def leaves(document: Any, path: tuple = ()):
    """Every path in a document, its inner objects included."""
    for key, value in document.items() if isinstance(document, dict) else ():
        yield (*path, key)
        yield from leaves(value, (*path, key))


def changed(document: dict, path: tuple, value: Any) -> dict:
    """A copy with the value at ``path`` replaced, or without it when ``value`` is ``...``."""
    document = json.loads(json.dumps(document))
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    if value is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return document


def accepted(run, directory, audit=summarize) -> bool:
    try:
        audit(run.write(directory))
    except InvalidRun:
        return False
    return True


@pytest.mark.parametrize("line", [4, 5, 8])
def test_what_the_schema_refuses_in_a_record_the_audit_refuses(run, tmp_path, line):
    """And the other way round, for every field that other fields do not determine."""
    root = schema("metrics.jsonl")
    record = run.records[line - 1]
    determined = {("event",), ("run_id",), ("session_id",), ("step",), ("tokens",), ("updates",), ("skipped_updates",)}
    determined |= {("attempted_updates",), ("qk_clip", "threshold")}
    determined |= {("qk_clip", "clipped_head_updates"), ("qk_clip", "observed_head_updates")}
    for path in list(leaves(record)):
        for value in [..., *VALUES]:
            run.records[line - 1] = changed(record, path, value)
            fits = valid(run.records[line - 1], root, root)
            passes = accepted(run, tmp_path)
            if (path not in determined and path[0] != "total") or not fits:
                assert passes == fits, (path, value)


def test_what_the_schema_refuses_in_a_checkpoint_the_audit_of_all_sessions_refuses(run, tmp_path):
    """But for its path and seconds, which no audit reads."""
    root = schema("metrics.jsonl")
    record = run.records[5]
    for path in [path for path in leaves(record) if path[0] in ("total", "pending", "session", "memory", "time")]:
        for value in [..., *VALUES]:
            run.records[5] = changed(record, path, value)
            if not valid(run.records[5], root, root):
                assert not accepted(run, tmp_path, summarize_all), (path, value)


def test_what_the_schema_refuses_in_the_manifest_the_audit_refuses(run, tmp_path):
    root = schema("run.json")
    session = run.manifest["sessions"][1]
    determined = {"batch_size", "seq_len", "gradient_accumulation_steps", "qk_clip_threshold", "session_id"}
    for path in list(leaves(session)):
        for value in [..., *VALUES]:
            run.manifest["sessions"][1] = changed(session, path, value)
            fits = valid(run.manifest, root, root)
            passes = accepted(run, tmp_path)
            if (not determined & set(path) and path[0] != "start") or not fits:
                assert passes == fits, (path, value)


@pytest.mark.parametrize("key", ["schema_version", "run_id", "created_at", "sessions"])
def test_the_manifests_own_keys_are_judged_alike(run, tmp_path, key):
    root = schema("run.json")
    manifest = run.manifest
    for value in [..., *VALUES]:
        run.manifest = changed(manifest, (key,), value)
        fits = valid(run.manifest, root, root)
        assert accepted(run, tmp_path) == (fits and (key != "run_id" or value == "run-a")), (key, value)


def test_the_command_prints_each_schema_and_all(capsys):
    assert main(["schema"]) == 0
    every = json.loads(capsys.readouterr().out)
    assert tuple(every) == SCHEMA_NAMES == ("run.json", "metrics.jsonl", *names.EVENT_KEYS)
    for name in SCHEMA_NAMES:
        assert main(["schema", name]) == 0
        assert json.loads(capsys.readouterr().out) == every[name] == schema(name)
        assert every[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_the_validator_of_this_file_can_say_no():
    root = schema("train")
    assert not valid({"event": "train"}, root, root)
    assert not valid(5, root, root)
    assert not CHECKS["type"](True, "integer")
