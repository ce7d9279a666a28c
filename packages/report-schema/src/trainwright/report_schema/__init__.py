"""The training report: ``training_report.json``, schema 1.0, and its reader and writer.

Building a report from a run's artifacts is in :mod:`trainwright.report_schema.parsers` (extra ``parsers``).
"""

from trainwright.report_schema.diagnostics import (
    DIAGNOSTICS_NAME,
    Diagnostics,
    read_diagnostics,
    write_diagnostics,
)
from trainwright.report_schema.errors import ReportError, UsageError
from trainwright.report_schema.old_report import Filled, read_old_report
from trainwright.report_schema.report_file import REPORT_NAME, read_report, write_report
from trainwright.report_schema.step_aggregation import MetricStats, StepAggregation
from trainwright.report_schema.training_config import TrainingConfig
from trainwright.report_schema.training_results import SCHEMA_VERSION, TrainingResults
from trainwright.report_schema.training_step import TrainingStep

__all__ = [
    "DIAGNOSTICS_NAME",
    "REPORT_NAME",
    "SCHEMA_VERSION",
    "Diagnostics",
    "Filled",
    "MetricStats",
    "ReportError",
    "StepAggregation",
    "TrainingConfig",
    "TrainingResults",
    "TrainingStep",
    "UsageError",
    "read_diagnostics",
    "read_old_report",
    "read_report",
    "write_diagnostics",
    "write_report",
]
