"""The root of a training report, and the version it is written in."""

import re

from trainwright.report_schema.errors import ReportError
from trainwright.report_schema.model import ReportModel
from trainwright.report_schema.step_aggregation import StepAggregation
from trainwright.report_schema.training_config import TrainingConfig
from trainwright.report_schema.training_step import TrainingStep

SCHEMA_VERSION = "1.0"


class TrainingResults(ReportModel):
    """A whole training report: the file ``training_report.json``."""

    schema_version: str = SCHEMA_VERSION
    """``MAJOR.MINOR``. Has its default when a report is constructed, never when one is read."""
    config: TrainingConfig
    """The resolved configuration of the run."""
    steps: list[TrainingStep]
    """The complete, finite iterations, in order."""
    aggregation: StepAggregation | None = None
    """Statistics over the steps of the window; ``None`` where the window is empty."""


def check_version(version: object) -> None:
    """Refuse a schema version that this package cannot read.

    A newer minor version is fine: it only adds.

    Raises:
        ReportError: the version is not ``MAJOR.MINOR``, or its major number is not ours.
    """
    match = re.fullmatch(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)", version) if isinstance(version, str) else None
    if match is None:
        raise ReportError(f'schema_version: expected "MAJOR.MINOR", such as "{SCHEMA_VERSION}", got {version!r}')
    supported = SCHEMA_VERSION.partition(".")[0]
    if match[1] != supported:
        raise ReportError(f"schema_version: {version!r} is not supported: only major version {supported} is")
