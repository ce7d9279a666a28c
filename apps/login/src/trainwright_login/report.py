"""``trainwright report``: build, show, compare, plot and describe training reports.

Each function is one command: it prints, and returns the exit status. What is wrong is one line on standard error; 1
means that the evidence or the report is bad, 2 that the words make no sense.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from trainwright.report_schema import (
    DIAGNOSTICS_NAME,
    REPORT_NAME,
    Diagnostics,
    ReportError,
    TrainingResults,
    UsageError,
    read_diagnostics,
    read_report,
)


def build(
    run_directory: Path,
    *,
    workload: str = "auto",
    system: Path | None = None,
    tests_dir: Path | None = None,
    scenario: Path | None = None,
    settings: Sequence[str] = (),
    exclude_after_restart: int = 0,
) -> int:
    """Build the report of a run, write it and its diagnostics into the run directory, and say what it holds.

    The options are those of :func:`trainwright.report_schema.parsers.build_report`.
    """

    def command() -> None:
        _need_extra("google_crc32c", "yaml")
        from trainwright.report_schema.parsers import build_report, write_built_report

        report, diagnostics = build_report(
            run_directory,
            workload=workload,
            system=system,
            tests_dir=tests_dir,
            scenario=scenario,
            settings=settings,
            exclude_after_restart=exclude_after_restart,
        )
        write_built_report(run_directory, report, diagnostics)
        print(f"read {run_directory} as a {diagnostics.workload} run: {_sources(diagnostics)}")
        print(f"wrote {run_directory / REPORT_NAME}: {_summary(report, diagnostics)}")
        for warning in diagnostics.warnings:
            print(f"warning: {warning}", file=sys.stderr)

    return _exit_status(command)


def show(path: Path) -> int:
    """Print a report: ``path`` is its file, or the directory that holds it."""

    def command() -> None:
        from trainwright_login.report_show import print_report

        report, diagnostics = load(path)
        print_report(report, diagnostics, title=str(path))

    return _exit_status(command)


def plot(runs: Path | Sequence[Path], output: Path) -> int:
    """Draw loss, step time, memory and TFLOP/s of one or several reports as ``.png``, ``.svg`` or ``.html``."""

    def command() -> None:
        if output.suffix not in (".png", ".svg", ".html"):
            raise UsageError(f"{output}: a plot is a .png, .svg or .html file")
        _need_extra("matplotlib")
        from trainwright_login.report_plot import PlottedRun, write_plot

        paths = [runs] if isinstance(runs, Path) else list(runs)
        labels = _labels(paths)
        write_plot([PlottedRun(label, *load(path)) for label, path in zip(labels, paths, strict=True)], output)
        print(f"wrote {output}")

    return _exit_status(command)


def compare(
    base: Path,
    new: Path,
    *,
    max_slowdown: str | None = None,
    max_memory_growth: str | None = None,
    loss_tolerance: str | None = None,
    format: str = "text",
) -> int:
    """Print how the report ``new`` differs from ``base``; 1 where a gate is certainly passed.

    Gates are fractions such as ``3%`` or ``0.03``; ``format`` is ``text``, ``json``, ``github``, ``junit`` or
    ``markdown``.
    """

    def command() -> None:
        from trainwright.report_schema.compare import Gates, Side, compare, parse_fraction
        from trainwright.report_schema.comparison_formats import COMPARISON_FORMATS

        if format not in COMPARISON_FORMATS:
            raise UsageError(f"no format {format!r}: one of {', '.join(COMPARISON_FORMATS)}")
        limits = [
            None if text is None else parse_fraction(text) for text in (max_slowdown, max_memory_growth, loss_tolerance)
        ]
        comparison = compare(Side(*load(base)), Side(*load(new)), Gates(*limits))
        sys.stdout.write(COMPARISON_FORMATS[format](comparison))
        if comparison.failed:
            failed = ", ".join(metric.metric for metric in comparison.metrics if metric.verdict == "fail")
            raise ReportError(f"{new} is past the gate: {failed}")

    return _exit_status(command)


def table(runs: Sequence[Path], *, sort_by: str | None = None, descending: bool = False, format: str = "text") -> int:
    """Print one row a report; ``format`` is ``text``, ``markdown`` or ``csv``."""

    def command() -> None:
        from trainwright.report_schema.compare import Side
        from trainwright.report_schema.summary_table import summary_table

        rows = [(label, Side(*load(path))) for label, path in zip(_labels(runs), runs, strict=True)]
        sys.stdout.write(summary_table(rows, sort_by=sort_by, descending=descending, format=format))

    return _exit_status(command)


def upgrade(old: Path, new: Path) -> int:
    """Read a report that is not schema 1.0 to the letter, say what had to be filled in, and write it as one that is."""

    def command() -> None:
        from trainwright.report_schema import read_old_report, write_report

        report, filled = read_old_report(old)
        write_report(new, report)
        for field, note in filled:
            print(f"{field}: {note}", file=sys.stderr)
        print(f"wrote {new}: {len(filled)} thing{'s'[: len(filled) != 1]} filled in")

    return _exit_status(command)


def schema(version: str | None = None) -> int:
    """Print the JSON Schema of a released version of the report, by default the newest."""

    def command() -> None:
        from trainwright.report_schema.released import RELEASED_VERSIONS, schema_text

        sys.stdout.write(schema_text(RELEASED_VERSIONS[-1] if version is None else version))

    return _exit_status(command)


def load(path: Path) -> tuple[TrainingResults, Diagnostics | None]:
    """A report, and its diagnostics where they stand beside it.

    Raises:
        UsageError: there is no such file or directory.
        ReportError: a file is not what it should be.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such file or directory")
    file = path / REPORT_NAME if path.is_dir() else path
    if not file.exists():
        raise ReportError(f"{path}: no {REPORT_NAME} here (trainwright report build {path} writes one)")
    beside = file.with_name(DIAGNOSTICS_NAME)
    return read_report(file), read_diagnostics(beside) if file.name == REPORT_NAME and beside.exists() else None


def _sources(diagnostics: Diagnostics) -> str:
    """What a report was built from, however many event files there are."""
    events = sum(source.role == "events" for source in diagnostics.sources)
    others = [source.path for source in diagnostics.sources if source.role != "events"]
    return ", ".join([f"{events} event file{'s'[: events != 1]}", *others])


def _summary(report: TrainingResults, diagnostics: Diagnostics) -> str:
    parts = [f"{len(report.steps)} step{'s'[: len(report.steps) != 1]}"]
    if report.steps:
        parts.append(f"loss {report.steps[0].loss:.4g} to {report.steps[-1].loss:.4g}")
    if report.aggregation is not None:
        window = diagnostics.window
        parts.append(
            f"{report.aggregation.step_time_sec.mean:.4g} s a step over {window.steps} steps "
            f"({window.first_iteration} to {window.last_iteration})"
        )
    return ", ".join(parts)


def _labels(paths: Sequence[Path]) -> list[str]:
    """What to call each run in a legend: its directory's name, or the whole path where that is not enough."""
    names = [(path if path.is_dir() else path.parent).resolve().name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def _need_extra(*modules: str) -> None:
    from importlib.util import find_spec

    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        raise UsageError(f"this needs the extra 'report' ({', '.join(missing)}): pip install 'trainwright[report]'")


def _exit_status(command: Callable[[], None]) -> int:
    try:
        command()
    except ReportError as error:
        print(f"trainwright report: {error}", file=sys.stderr)
        return error.exit_code
    return 0
