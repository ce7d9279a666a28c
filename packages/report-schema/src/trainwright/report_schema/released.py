"""The JSON Schema of each released version: what other tools validate a report against."""

import json
from importlib.resources import files
from typing import Any

from trainwright.report_schema.errors import UsageError
from trainwright.report_schema.training_results import SCHEMA_VERSION, TrainingResults

RELEASED_VERSIONS = ("1.0",)
"""Oldest first. A released schema is a file in ``schemas/`` that is never edited."""


def schema_text(version: str = SCHEMA_VERSION) -> str:
    """The JSON Schema of a released version, as checked in.

    Raises:
        UsageError: there is no such version.
    """
    if version not in RELEASED_VERSIONS:
        raise UsageError(f"no schema version {version!r}: released are {', '.join(RELEASED_VERSIONS)}")
    return files("trainwright.report_schema").joinpath("schemas", f"{version}.json").read_text(encoding="utf-8")


def current_schema() -> dict[str, Any]:
    """The JSON Schema of the models as they are: of a document that is read, where ``schema_version`` is required."""
    schema = TrainingResults.model_json_schema(mode="validation")
    schema["required"] = ["schema_version", *schema["required"]]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def current_schema_text() -> str:
    """:func:`current_schema` as it is written to a file."""
    return json.dumps(current_schema(), indent=2) + "\n"
