"""From event files to segments: the uninterrupted stretches of a run that was restarted."""

import re
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from trainwright.report_schema.parsers.records import Damage, RecordReader
from trainwright.report_schema.parsers.scalars import SESSION_START, read_points


@dataclass
class Series:
    """One metric of one segment: strictly ascending steps, and a value for each."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))


@dataclass
class RawSegment:
    """What one uninterrupted stretch of training logged to one file."""

    path: Path
    series: dict[str, Series] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    repeated_points: int = 0
    """Values that were logged again for the same metric and step; the last one is kept."""

    @property
    def first_step(self) -> int:
        return min(series.steps[0] for series in self.series.values())

    @property
    def last_step(self) -> int:
        return max(series.steps[-1] for series in self.series.values())


def event_files(directory: Path) -> list[Path]:
    """The event files under a directory, oldest first by the time in their names."""
    found = [path for path in directory.rglob("*") if "tfevents" in path.name and path.is_file()]
    return sorted(found, key=event_age)


def event_age(path: Path) -> tuple[float, list[int | str], str]:
    """Sort key of event files: the Unix time in the name, then the name, its numbers compared as numbers."""
    time = re.search(r"tfevents\.(\d+)", path.name)
    natural: list[int | str] = [
        int(part) if index % 2 else part for index, part in enumerate(re.split(r"(\d+)", path.name))
    ]
    return (float(time[1]) if time else float("inf"), natural, str(path))


def read_segments(
    files: Iterable[Path], name_of: Callable[[str], str | None]
) -> tuple[list[RawSegment], dict[Path, list[Damage]]]:
    """Read event files, in the order given, into segments with at least one scalar.

    A file begins a segment. Within a file, so does a step that goes back for its metric, and a ``purge_step`` mark.

    Args:
        files: event files, oldest first.
        name_of: the metric that a tag is a point of; ``None`` to leave the tag out.

    Returns:
        The segments, and what could not be read of each file that is damaged.

    Raises:
        ReportError: a file cannot be opened or read.
    """
    segments: list[RawSegment] = []
    damage: dict[Path, list[Damage]] = {}
    for path in files:
        records = RecordReader(path)
        segments.extend(_segments_of(path, records, name_of))
        if records.damage:
            damage[path] = records.damage
    return segments, damage


def _segments_of(path: Path, records: RecordReader, name_of: Callable[[str], str | None]) -> list[RawSegment]:
    segment = RawSegment(path)
    found = [segment]
    for name, step, value in read_points(records, name_of):
        if isinstance(value, str):
            segment.texts[name] = value
            continue
        if name == SESSION_START:
            segment = RawSegment(path)
            found.append(segment)
            continue
        series = segment.series.get(name)
        if series is None:
            series = segment.series[name] = Series()
        elif step <= series.steps[-1]:
            if step == series.steps[-1]:
                series.values[-1] = value
                segment.repeated_points += 1
                continue
            segment = RawSegment(path)
            found.append(segment)
            series = segment.series[name] = Series()
        series.steps.append(step)
        series.values.append(value)
    return _with_scalars(found)


def _with_scalars(segments: list[RawSegment]) -> list[RawSegment]:
    """The segments that hold scalars; texts that stood before them in the same file are theirs too."""
    texts: dict[str, str] = {}
    kept: list[RawSegment] = []
    for segment in segments:
        texts = {**texts, **segment.texts}
        if segment.series:
            segment.texts = texts
            kept.append(segment)
    return kept
