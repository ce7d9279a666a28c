"""What is known of a report beyond schema 1.0: the file ``training_report.diagnostics.json`` beside it."""

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from trainwright.report_schema.errors import ReportError
from trainwright.report_schema.model import ReportModel
from trainwright.report_schema.report_file import first_problem
from trainwright.report_schema.strict_json import dump_json, load_json, write_atomically

DIAGNOSTICS_NAME = "training_report.diagnostics.json"

type StepRanges = list[list[int]]
"""Iterations as inclusive ``[first, last]`` pairs, in ascending order."""


class Source(ReportModel):
    """A file that the report was built from."""

    path: str
    """Path relative to the run directory where it lies inside."""
    role: Literal["events", "configuration", "run"]
    """What was taken from it: metrics, the framework's configuration, or facts about the run."""
    size_bytes: int


class UnreadBytes(ReportModel):
    """A stretch of an event file that could not be used."""

    path: str
    offset: int
    """Where it starts in the file."""
    size_bytes: int
    """How much was passed over."""
    reason: str


class Segment(ReportModel):
    """One uninterrupted stretch of training: a process's lifetime between two restarts."""

    path: str
    """The event file that it was logged to."""
    first_iteration: int
    """First iteration with any of the metrics, complete or not."""
    last_iteration: int
    """Last iteration with any of the metrics, before later segments took some back."""
    steps: int
    """How many of its iterations are in the report."""


class LeftOut(ReportModel):
    """Iterations that were logged and are not in the report, for one reason."""

    reason: Literal["rolled-back", "incomplete", "non-finite"]
    """``rolled-back``: a later segment trained them again. ``incomplete``: a metric is missing. ``non-finite``: a
    metric is NaN or infinite."""
    metric: str | None = None
    """The metric that is missing or not finite."""
    count: int
    iterations: StepRanges


class Excluded(ReportModel):
    """Steps that are in the report and not in the aggregation, for one reason."""

    reason: Literal["start", "restart", "profiling"]
    count: int
    iterations: StepRanges


class Window(ReportModel):
    """The steps that the aggregation is over."""

    exclude_start_steps: int
    """Left out at the start, by position among the report's steps."""
    exclude_after_restart: int
    """Left out at the start of each later segment, by position among the segment's steps."""
    exclude_post_profiling_steps: int
    """Left out after the last profiled iteration."""
    profiling_start_step: int | None
    """First profiled iteration; ``None`` where no profiler ran or its bounds are unknown."""
    profiling_stop_step: int | None
    excluded: list[Excluded]
    steps: int
    """Steps of the window."""
    first_iteration: int | None
    last_iteration: int | None


class Diagnostics(ReportModel):
    """How a report came about: what it was read from, what was left out, and what a reader should know."""

    diagnostics_version: Literal["1.0"] = "1.0"
    workload: str
    """The parser that read the run: ``trainwright``, ``nemo-run``, ``megatron-run`` or ``megatron-bridge``."""
    canonical: bool | None = None
    """Whether an own run was its recipe unchanged; ``None`` where that is not known."""
    canonical_differences: list[str] = Field(default_factory=list)
    """In what it was not, a line each: the field, the recipe's value, the run's value and who set it."""
    sources: list[Source]
    segments: list[Segment]
    window: Window
    left_out: list[LeftOut] = Field(default_factory=list)
    repeated_points: int = 0
    """Values that one segment logged again for the same metric and iteration; the last one counts."""
    unread: list[UnreadBytes] = Field(default_factory=list)
    config_sources: dict[str, str] = Field(default_factory=dict)
    """Where each configuration field came from."""
    warnings: list[str] = Field(default_factory=list)
    """One line each, as said on the terminal."""


def read_diagnostics(path: Path | str) -> Diagnostics:
    """Read a diagnostics file.

    Raises:
        ReportError: it cannot be read, is not strict JSON, or a field is missing or wrong.
    """
    path = Path(path)
    document = load_json(path)
    try:
        return Diagnostics.model_validate(document)
    except ValidationError as error:
        raise ReportError(f"{path}: {first_problem(error)}") from None


def write_diagnostics(path: Path | str, diagnostics: Diagnostics) -> None:
    """Write a diagnostics file as strict JSON, whole or not at all.

    Raises:
        ReportError: a number is not finite, or the file cannot be written.
    """
    write_atomically(Path(path), dump_json(diagnostics.model_dump()))
