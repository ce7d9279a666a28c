"""The JSON Schemas of the session log, as they ship in this package (draft 2020-12)."""

import json
from pathlib import Path
from typing import Any

from trainwright.metrics_audit import names

_FOLDER = Path(__file__).parent / "schemas"

SCHEMA_NAMES = (names.MANIFEST_FILE, names.METRICS_FILE, *names.EVENT_KEYS)
"""The two files (for ``metrics.jsonl``: any line of it), and each event."""


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema called ``name``, one of `SCHEMA_NAMES`, complete in itself."""
    if name == names.MANIFEST_FILE:
        return _load("run")
    record = _load("record")
    if name == names.METRICS_FILE:
        return record
    alone: dict[str, Any] = {"$schema": record["$schema"], "title": f"A {name} record of {names.METRICS_FILE}"}
    return {**alone, "$ref": f"#/$defs/{name}", "$defs": record["$defs"]}


def _load(stem: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((_FOLDER / f"{stem}.schema.json").read_text(encoding="utf-8"))
    return document
