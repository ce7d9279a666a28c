"""Building a report from what a run left behind."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from trainwright.report_schema.aggregate import aggregate
from trainwright.report_schema.diagnostics import DIAGNOSTICS_NAME, Diagnostics, write_diagnostics
from trainwright.report_schema.errors import UsageError
from trainwright.report_schema.parsers.config_fields import Found, assemble_config
from trainwright.report_schema.parsers.evidence import Evidence, shown
from trainwright.report_schema.parsers.field_text import parse_setting
from trainwright.report_schema.parsers.findings import (
    config_findings,
    left_out_findings,
    repeated_findings,
    segment_findings,
    unread_findings,
    window_findings,
)
from trainwright.report_schema.parsers.steps import describe_left_out, describe_segments, join_steps
from trainwright.report_schema.parsers.surroundings import fill_unknown_text, read_surroundings
from trainwright.report_schema.parsers.workloads import find_workload
from trainwright.report_schema.report_file import REPORT_NAME, write_report
from trainwright.report_schema.training_results import TrainingResults
from trainwright.report_schema.window import select_window


def build_report(
    run_directory: Path | str,
    *,
    workload: str = "auto",
    system: Path | None = None,
    tests_dir: Path | None = None,
    scenario: Path | None = None,
    settings: Iterable[str] = (),
    exclude_after_restart: int = 0,
) -> tuple[TrainingResults, Diagnostics]:
    """Build the report of a run; writes nothing.

    Args:
        run_directory: what the run left behind.
        workload: ``trainwright``, ``nemo-run``, ``megatron-run``, ``megatron-bridge``, or ``auto`` to find out.
        system: CloudAI's system definition (TOML).
        tests_dir: directory of CloudAI's test definitions.
        scenario: CloudAI's scenario definition (TOML).
        settings: configuration fields as ``FIELD=VALUE``; they come before whatever the files say.
        exclude_after_restart: steps to leave out of the aggregation after each restart.

    Returns:
        The report, and how it came about.

    Raises:
        UsageError: a path does not exist, a setting is not one, a count is negative, the workload is ambiguous.
        ReportError: the evidence is missing, unreadable or contradictory.
    """
    run_directory = Path(run_directory)
    if not run_directory.is_dir():
        raise UsageError(f"{run_directory}: no such directory")
    if exclude_after_restart < 0:
        raise UsageError(f"exclude_after_restart must be at least 0, got {exclude_after_restart}")
    set_fields = {field: Found(value, "--set") for field, value in map(parse_setting, settings)}
    surroundings = read_surroundings(run_directory, system=system, tests_dir=tests_dir, scenario=scenario)
    evidence = find_workload(workload, surroundings).collect(run_directory, surroundings)
    return report_of(evidence, settings=set_fields, exclude_after_restart=exclude_after_restart)


def write_run_report(run_directory: Path | str) -> TrainingResults:
    """Build the report of one of our own runs, and write it and its diagnostics into the run directory.

    Raises:
        UsageError, ReportError: as :func:`build_report`, or a file cannot be written.
    """
    report, diagnostics = build_report(run_directory)
    write_built_report(run_directory, report, diagnostics)
    return report


def write_built_report(run_directory: Path | str, report: TrainingResults, diagnostics: Diagnostics) -> None:
    """Write a report and its diagnostics under their names into a run directory.

    Raises:
        ReportError: a file cannot be written.
    """
    write_diagnostics(Path(run_directory) / DIAGNOSTICS_NAME, diagnostics)
    write_report(Path(run_directory) / REPORT_NAME, report)


def report_of(
    evidence: Evidence, *, settings: Mapping[str, Found] | None = None, exclude_after_restart: int = 0
) -> tuple[TrainingResults, Diagnostics]:
    """Turn the evidence of a run into its report.

    Raises:
        ReportError: the configuration is incomplete or contradictory.
    """
    found = {**evidence.config, **(settings or {})}
    empty, unknown = fill_unknown_text(found)
    config, config_sources = assemble_config({**found, **empty})
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
    repeated = sum(segment.repeated_points for segment in evidence.segments)
    warnings = [
        *evidence.warnings,
        *unknown,
        *config_findings(config),
        *unread_findings(evidence.unread),
        *segment_findings(segments),
        *repeated_findings(repeated),
        *left_out_findings(left_out),
        *window_findings(joined.steps, window, joined.segment_starts, config),
    ]
    return report, Diagnostics(
        workload=evidence.workload,
        canonical=evidence.canonical,
        canonical_differences=evidence.canonical_differences,
        sources=evidence.sources,
        segments=segments,
        window=window,
        left_out=left_out,
        repeated_points=repeated,
        unread=evidence.unread,
        config_sources=config_sources,
        warnings=warnings,
    )
