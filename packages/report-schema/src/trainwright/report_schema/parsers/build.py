"""Building a report from what a run left behind."""

from pathlib import Path

from trainwright.report_schema.aggregate import aggregate
from trainwright.report_schema.diagnostics import DIAGNOSTICS_NAME, Diagnostics, write_diagnostics
from trainwright.report_schema.errors import ReportError, UsageError
from trainwright.report_schema.parsers import own
from trainwright.report_schema.parsers.config_fields import assemble_config
from trainwright.report_schema.parsers.evidence import Evidence, shown
from trainwright.report_schema.parsers.findings import (
    left_out_findings,
    segment_findings,
    unread_findings,
    window_findings,
)
from trainwright.report_schema.parsers.steps import describe_left_out, describe_segments, join_steps
from trainwright.report_schema.report_file import REPORT_NAME, write_report
from trainwright.report_schema.training_results import TrainingResults
from trainwright.report_schema.window import select_window


def build_report(run_directory: Path | str, *, exclude_after_restart: int = 0) -> tuple[TrainingResults, Diagnostics]:
    """Build the report of a run; writes nothing.

    Args:
        run_directory: what the run left behind.
        exclude_after_restart: steps to leave out of the aggregation after each restart.

    Returns:
        The report, and how it came about.

    Raises:
        UsageError: the directory does not exist, or a count is negative.
        ReportError: the evidence is missing, unreadable or contradictory.
    """
    run_directory = Path(run_directory)
    if not run_directory.is_dir():
        raise UsageError(f"{run_directory}: no such directory")
    if exclude_after_restart < 0:
        raise UsageError(f"exclude_after_restart must be at least 0, got {exclude_after_restart}")
    if not own.recognises(run_directory):
        raise ReportError(f"{run_directory}: no run is recognised ({own.ENVIRONMENT_FILE} and {own.CONFIG_FILE})")
    return report_of(own.collect(run_directory), exclude_after_restart=exclude_after_restart)


def write_run_report(run_directory: Path | str, *, exclude_after_restart: int = 0) -> TrainingResults:
    """Build the report of a run and write it, and its diagnostics, into the run directory.

    Raises:
        UsageError, ReportError: as :func:`build_report`, or a file cannot be written.
    """
    run_directory = Path(run_directory)
    report, diagnostics = build_report(run_directory, exclude_after_restart=exclude_after_restart)
    write_report(run_directory / REPORT_NAME, report)
    write_diagnostics(run_directory / DIAGNOSTICS_NAME, diagnostics)
    return report


def report_of(evidence: Evidence, *, exclude_after_restart: int = 0) -> tuple[TrainingResults, Diagnostics]:
    """Turn the evidence of a run into its report.

    Raises:
        ReportError: the configuration is incomplete or contradictory.
    """
    config, config_sources = assemble_config(evidence.config)
    joined = join_steps(evidence.segments, evidence.scale)
    kept, window = select_window(
        joined.steps,
        config,
        segment_starts=joined.segment_starts,
        exclude_after_restart=exclude_after_restart,
    )
    report = TrainingResults(config=config, steps=joined.steps, aggregation=aggregate(kept))

    paths = [shown(segment.path, evidence.run_directory) for segment in evidence.segments]
    segments = describe_segments(evidence.segments, joined, paths)
    left_out = describe_left_out(joined)
    warnings = [
        *evidence.warnings,
        *unread_findings(evidence.unread),
        *segment_findings(segments),
        *left_out_findings(left_out),
        *window_findings(joined.steps, window, joined.segment_starts, config),
    ]
    return report, Diagnostics(
        workload=evidence.workload,
        canonical=evidence.canonical,
        sources=evidence.sources,
        segments=segments,
        window=window,
        left_out=left_out,
        repeated_points=sum(segment.repeated_points for segment in evidence.segments),
        unread=evidence.unread,
        config_sources=config_sources,
        warnings=warnings,
    )
