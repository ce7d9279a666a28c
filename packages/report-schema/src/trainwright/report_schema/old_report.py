"""Reading reports that are not schema 1.0 to the letter: written before it, or by a tool that does not validate."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from trainwright.report_schema.errors import ReportError
from trainwright.report_schema.report_file import validated
from trainwright.report_schema.strict_json import load_json
from trainwright.report_schema.training_config import TrainingConfig
from trainwright.report_schema.training_results import SCHEMA_VERSION, TrainingResults, check_version

_EMPTY: dict[Any, Callable[[], Any]] = {str: str, int: int, bool: bool, list[str]: list, dict[str, Any]: dict}


class Filled(NamedTuple):
    """Something that the file did not say, or not in a usable form."""

    field: str
    """Its path, such as ``config.nodes``."""
    note: str
    """What the report says instead, and why."""


def read_old_report(path: Path | str) -> tuple[TrainingResults, list[Filled]]:
    """Read a report that lacks fields of schema 1.0, or has null where it may not.

    - Without ``schema_version`` it is taken for 1.0.
    - A required field that is missing or null becomes ``""``, 0, ``False``, ``[]`` or ``{}``; one that may be null
      becomes null; ``expert_tensor_parallel_size`` becomes the tensor parallel size, Megatron Core's default.
    - A step with a number that is null or not finite (older tools write bare ``NaN``) is left out.
    - Statistics with such a number are dropped.

    Returns:
        The report, now complete, and each thing that had to be filled in; none for a proper report.

    Raises:
        ReportError: the file cannot be read, or is wrong in any other way.
    """
    path = Path(path)
    document = load_json(path, finite=False)
    if not isinstance(document, dict):
        raise ReportError(f"{path}: $: expected an object, got {type(document).__name__}")
    filled: list[Filled] = []
    try:
        if "schema_version" not in document:
            document = {"schema_version": SCHEMA_VERSION, **document}
            filled.append(Filled("schema_version", f"missing: taken for {SCHEMA_VERSION}"))
        check_version(document["schema_version"])
        _fill_config(document, filled)
        _drop_steps(document, filled)
        _drop_statistics(document, filled)
        return validated(document), filled
    except ReportError as error:
        raise ReportError(f"{path}: {error}") from None


def _fill_config(document: dict[str, Any], filled: list[Filled]) -> None:
    config = document.get("config")
    if not isinstance(config, dict):
        return
    for name, field in TrainingConfig.model_fields.items():
        nullable = "None" in str(field.annotation)
        absent_by_right = not field.is_required() if name not in config else nullable
        if config.get(name) is not None or absent_by_right:
            continue
        was = "null" if name in config else "missing"
        if nullable:
            config[name], note = None, "null"
        elif name == "expert_tensor_parallel_size" and config.get("tensor_parallel_size") is not None:
            config[name] = config["tensor_parallel_size"]
            note = f"{config[name]}, the tensor parallel size"
        else:
            config[name] = _EMPTY[field.annotation]() if field.is_required() else field.default
            note = f"{config[name]!r}, which stands for unknown"
        filled.append(Filled(f"config.{name}", f"{was}: {note}"))


def _drop_steps(document: dict[str, Any], filled: list[Filled]) -> None:
    steps = document.get("steps")
    if not isinstance(steps, list):
        return
    unusable = [index for index, step in enumerate(steps) if isinstance(step, dict) and _has_hole(step)]
    for index in unusable:
        filled.append(Filled(f"steps[{index}]", "a number is null or not finite: the step is left out"))
    document["steps"] = [step for index, step in enumerate(steps) if index not in set(unusable)]


def _has_hole(step: dict[str, Any]) -> bool:
    return any(
        (value is None and name != "tflops_per_gpu") or (isinstance(value, float) and not math.isfinite(value))
        for name, value in step.items()
    )


def _drop_statistics(document: dict[str, Any], filled: list[Filled]) -> None:
    aggregation = document.get("aggregation")
    if not isinstance(aggregation, dict):
        return
    for name, stats in aggregation.items():
        if isinstance(stats, dict) and any(isinstance(n, float) and not math.isfinite(n) for n in stats.values()):
            document["aggregation"] = None
            filled.append(Filled("aggregation", f"{name} has a number that is not finite: there are no statistics"))
            return
