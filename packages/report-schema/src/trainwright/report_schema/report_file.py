"""Reading and writing ``training_report.json``."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainwright.report_schema.errors import ReportError
from trainwright.report_schema.strict_json import dump_json, field_path, load_json, write_atomically
from trainwright.report_schema.training_results import TrainingResults, check_version
from trainwright.report_schema.training_step import TrainingStep

REPORT_NAME = "training_report.json"


def read_report(path: Path | str) -> TrainingResults:
    """Read a report of a supported version.

    Unknown fields, at any depth, are kept: :func:`write_report` writes them back.

    Raises:
        ReportError: the file cannot be read, is not strict JSON, has no or an unsupported ``schema_version``, or a
            field is missing or wrong; the message names the file and the field.
    """
    path = Path(path)
    document = load_json(path)
    if not isinstance(document, dict):
        raise ReportError(f"{path}: $: expected an object, got {type(document).__name__}")
    if "schema_version" not in document:
        raise ReportError(f"{path}: schema_version: missing (a report written before 1.0 is read by read_old_report)")
    try:
        check_version(document["schema_version"])
        return validated(document)
    except ReportError as error:
        raise ReportError(f"{path}: {error}") from None


def write_report(path: Path | str, report: TrainingResults) -> None:
    """Write a report as strict JSON, whole or not at all.

    Keys stand in the order of the schema, unknown ones after them; floats survive the round trip.

    Raises:
        ReportError: a value does not fit its field or is not finite, or the file cannot be written.
    """
    check_version(report.schema_version)
    document = report.model_dump(warnings=False)
    _check_anew(document)
    write_atomically(Path(path), dump_json(document))


def _check_anew(document: dict[str, Any]) -> None:
    """Validate what is about to be written: fields may have been assigned since the report was made.

    Steps are checked one at a time, so that a long report is not held twice.
    """
    steps = document["steps"]
    validated({**document, "steps": [] if isinstance(steps, list) else steps})
    for index, step in enumerate(steps):
        try:
            TrainingStep.model_validate(step)
        except ValidationError as error:
            raise ReportError(first_problem(error, ("steps", index))) from None


def validated(document: dict[str, Any]) -> TrainingResults:
    """The report in a decoded document; the first wrong field becomes a one-line :class:`ReportError`."""
    try:
        return TrainingResults.model_validate(document)
    except ValidationError as error:
        raise ReportError(first_problem(error)) from None


def first_problem(error: ValidationError, within: tuple[int | str, ...] = ()) -> str:
    """One line for a pydantic error: the path of the first wrong field, what was expected, how many more there are.

    ``within`` is the path of what was validated, where that is not the whole document.
    """
    first, *others = error.errors(include_url=False)
    where = field_path((*within, *first["loc"]))
    said = first["msg"][0].lower() + first["msg"][1:]
    got = "" if first["type"] == "missing" else f", got {_short(first['input'])}"
    more = f" (and {len(others)} more)" if others else ""
    return f"{where}: {said}{got}{more}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
