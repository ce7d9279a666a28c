"""The version rule: the models, the released schemas and the history page move together."""

import copy
import hashlib
import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from trainwright.report_schema import SCHEMA_VERSION, UsageError
from trainwright.report_schema.released import RELEASED_VERSIONS, current_schema, schema_text
from trainwright.report_schema.version_rule import Change, classify_change, next_version

HISTORY = Path(__file__).parents[2] / "docs" / "report.md"

# A released schema is never edited. A new version adds a line here; no line ever changes.
SHA256 = {"1.0": "7d5dfd55b8fcf9d9163afa1b13402a5320b02d27fdfe880386f6fdbeaad9aebd"}


def released(version: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(schema_text(version))
    return schema


def test_models_are_the_newest_released_schema() -> None:
    """A change of a model is a new version: bump SCHEMA_VERSION, add schemas/VERSION.json and a line of history."""
    change = classify_change(released(RELEASED_VERSIONS[-1]), current_schema())
    due = next_version(RELEASED_VERSIONS[-1], change)
    assert change == "none", f"the models have changed: this is a {change} change, so release schema version {due}"
    assert RELEASED_VERSIONS[-1] == SCHEMA_VERSION


@pytest.mark.parametrize("version", RELEASED_VERSIONS)
def test_released_schema_is_never_edited(version: str) -> None:
    """Its bytes are those of its release."""
    assert hashlib.sha256(schema_text(version).encode()).hexdigest() == SHA256[version]


def test_versions_moved_by_the_rule() -> None:
    """From each released version to the next, the number moved as the change demands."""
    for older, newer in pairwise(RELEASED_VERSIONS):
        change = classify_change(released(older), released(newer))
        assert newer == next_version(older, change), f"{older} to {newer} is a {change} change"


def test_history_page_has_every_version() -> None:
    """Newest first, each with its date."""
    headings = re.findall(r"^### (\d+\.\d+) — \d{4}-\d\d-\d\d$", HISTORY.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == list(reversed(RELEASED_VERSIONS))


def test_unknown_version_is_refused() -> None:
    """With the versions that there are."""
    with pytest.raises(UsageError, match=r"no schema version '9\.9': released are 1\.0"):
        schema_text("9.9")


def definition(schema: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = schema["$defs"][name]
    return found


def add_optional(schema: dict[str, Any]) -> None:
    definition(schema, "TrainingStep")["properties"]["tokens"] = {"type": "integer", "default": 0}


def add_optional_section(schema: dict[str, Any]) -> None:
    schema["$defs"]["Status"] = {"type": "object", "properties": {"code": {"type": "integer"}}, "required": ["code"]}
    schema["properties"]["status"] = {"anyOf": [{"$ref": "#/$defs/Status"}, {"type": "null"}], "default": None}


def add_required(schema: dict[str, Any]) -> None:
    definition(schema, "TrainingStep")["properties"]["tokens"] = {"type": "integer"}
    definition(schema, "TrainingStep")["required"].append("tokens")


def remove(schema: dict[str, Any]) -> None:
    del definition(schema, "TrainingConfig")["properties"]["clique_size"]


def rename(schema: dict[str, Any]) -> None:
    properties = definition(schema, "TrainingConfig")["properties"]
    properties["nvlink_domain"] = properties.pop("clique_size")


def make_required(schema: dict[str, Any]) -> None:
    definition(schema, "TrainingConfig")["required"].append("world_size")


def make_optional(schema: dict[str, Any]) -> None:
    definition(schema, "TrainingConfig")["required"].remove("num_layers")


def retype(schema: dict[str, Any]) -> None:
    definition(schema, "TrainingStep")["properties"]["iteration"]["type"] = "number"


def allow_null(schema: dict[str, Any]) -> None:
    definition(schema, "TrainingStep")["properties"]["loss"] = {"anyOf": [{"type": "number"}, {"type": "null"}]}


def change_default(schema: dict[str, Any]) -> None:
    definition(schema, "TrainingConfig")["properties"]["exclude_start_steps"]["default"] = 6


def add_bound(schema: dict[str, Any]) -> None:
    definition(schema, "TrainingStep")["properties"]["iteration"]["minimum"] = 0


def close(schema: dict[str, Any]) -> None:
    definition(schema, "TrainingStep")["additionalProperties"] = False


def reword(schema: dict[str, Any]) -> None:
    definition(schema, "TrainingStep")["description"] = "Another sentence."
    definition(schema, "TrainingStep")["properties"]["loss"]["title"] = "Loss!"


def reorder(schema: dict[str, Any]) -> None:
    definition(schema, "TrainingConfig")["required"].reverse()
    definition(schema, "TrainingConfig")["properties"]["fp8"]["anyOf"].reverse()


def inline(schema: dict[str, Any]) -> None:
    schema["properties"]["config"] = schema["$defs"].pop("TrainingConfig")


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (reword, "none"),
        (reorder, "none"),
        (inline, "none"),
        (add_optional, "minor"),
        (add_optional_section, "minor"),
        (add_required, "major"),
        (remove, "major"),
        (rename, "major"),
        (make_required, "major"),
        (make_optional, "major"),
        (retype, "major"),
        (allow_null, "major"),
        (change_default, "major"),
        (add_bound, "major"),
        (close, "major"),
    ],
)
def test_change_is_classified(edit: Callable[[dict[str, Any]], None], expected: Change) -> None:
    """Each kind of edit, by the published rules."""
    old = released("1.0")
    new = copy.deepcopy(old)
    edit(new)
    assert classify_change(old, new) == expected


def test_addition_beside_a_removal_is_major() -> None:
    """The gravest change decides."""
    old = released("1.0")
    new = copy.deepcopy(old)
    add_optional(new)
    remove(new)
    assert classify_change(old, new) == "major"


@pytest.mark.parametrize(("change", "expected"), [("none", "1.9"), ("minor", "1.10"), ("major", "2.0")])
def test_next_version(change: Change, expected: str) -> None:
    """Numbers count, digits do not."""
    assert next_version("1.9", change) == expected
