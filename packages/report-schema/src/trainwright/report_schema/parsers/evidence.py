"""What a workload's parser finds in a run directory: all that a report is built from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainwright.report_schema.diagnostics import Source, UnreadBytes
from trainwright.report_schema.errors import ReportError
from trainwright.report_schema.parsers.config_fields import Found
from trainwright.report_schema.parsers.segments import RawSegment, event_files, read_segments


@dataclass
class Evidence:
    """The raw material of a report."""

    run_directory: Path
    workload: str
    segments: list[RawSegment]
    config: dict[str, Found]
    sources: list[Source]
    unread: list[UnreadBytes]
    scale: Mapping[str, float] = field(default_factory=dict)
    """Factor from the logged unit of a metric to the report's, where they differ."""
    canonical: bool | None = None
    canonical_differences: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_events(
    directory: Path, run_directory: Path, name_of: Callable[[str], str | None]
) -> tuple[list[RawSegment], list[Source], list[UnreadBytes]]:
    """Read all event files under a directory.

    Raises:
        ReportError: there is none, or none holds any of the metrics; the message says what was and was not read.
    """
    files = event_files(directory)
    if not files:
        raise ReportError(f"{directory}: no TensorBoard event files (*tfevents*)")
    segments, damage = read_segments(files, name_of)
    sources = [source_of(path, run_directory, "events") for path in files]
    unread = [
        UnreadBytes(path=shown(path, run_directory), offset=one.offset, size_bytes=one.size_bytes, reason=one.reason)
        for path, found in damage.items()
        for one in found
    ]
    if not segments:
        lost = f"; {sum(one.size_bytes for one in unread)} bytes could not be read" if unread else ""
        raise ReportError(f"{directory}: no metric in {len(files)} event file{'s'[: len(files) > 1]}{lost}")
    return segments, sources, unread


def only_one(paths: Sequence[Path], run_directory: Path, name: str) -> Path:
    """The one path that was found.

    Raises:
        ReportError: there is none, or several, which may belong to different attempts.
    """
    if len(paths) > 1:
        several = ", ".join(shown(path, run_directory) for path in paths)
        raise ReportError(f"{run_directory}: several {name}: {several}; name the directory of one run")
    if not paths:
        raise ReportError(f"{run_directory}: no {name}")
    return paths[0]


def source_of(path: Path, run_directory: Path, role: str) -> Source:
    """A file that was read, for the diagnostics."""
    return Source.model_validate({"path": shown(path, run_directory), "role": role, "size_bytes": path.stat().st_size})


def shown(path: Path, run_directory: Path) -> str:
    """A path as the diagnostics and messages show it: relative to the run directory where it lies inside."""
    return str(path.relative_to(run_directory)) if path.is_relative_to(run_directory) else str(path)
