"""From segments of raw series to a report's steps."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from trainwright.report_schema.diagnostics import LeftOut, Segment
from trainwright.report_schema.parsers.segments import RawSegment, Series
from trainwright.report_schema.ranges import as_ranges
from trainwright.report_schema.training_step import TrainingStep

REQUIRED_METRICS = ("step_time_sec", "loss", "memory_reserved_bytes", "memory_allocated_bytes")
OPTIONAL_METRICS = ("tflops_per_gpu",)
METRICS = REQUIRED_METRICS + OPTIONAL_METRICS

type Reason = Literal["rolled-back", "incomplete", "non-finite"]


@dataclass
class JoinedSteps:
    """The steps of a run, and what became of every other iteration that was logged."""

    steps: list[TrainingStep] = field(default_factory=list)
    segment_starts: list[int] = field(default_factory=list)
    """Position in ``steps`` at which each segment starts."""
    segment_counts: list[int] = field(default_factory=list)
    """How many steps each segment gave."""
    left_out: dict[tuple[Reason, str | None], list[int]] = field(default_factory=dict)
    """Iterations that are not in ``steps``, by reason and metric."""


def join_steps(segments: Sequence[RawSegment], scale: Mapping[str, float]) -> JoinedSteps:
    """Put the metrics of each iteration together, oldest segment first.

    A segment takes back what earlier ones logged from its first iteration on: that training was rolled back. Within a
    segment an iteration is a step if it has every required metric, all finite; metrics of two segments never meet.

    Args:
        segments: oldest first; their series are named by :data:`METRICS`.
        scale: factor from the logged unit to the report's, for metrics that need one.
    """
    joined = JoinedSteps()
    for index, segment in enumerate(segments):
        joined.segment_starts.append(len(joined.steps))
        end = min((later.first_step for later in segments[index + 1 :]), default=None)
        for iteration, values in _rows(segment):
            if end is not None and iteration >= end:
                joined.left_out.setdefault(("rolled-back", None), []).append(iteration)
                continue
            scaled = {name: value * scale.get(name, 1.0) for name, value in values.items()}
            problem = _problem(scaled)
            if problem is None:
                joined.steps.append(TrainingStep(iteration=iteration, **scaled))
            else:
                joined.left_out.setdefault(problem, []).append(iteration)
        joined.segment_counts.append(len(joined.steps) - joined.segment_starts[-1])
    return joined


def describe_left_out(joined: JoinedSteps) -> list[LeftOut]:
    """The iterations that are not in the report, for the diagnostics."""
    return [
        LeftOut(reason=reason, metric=metric, count=len(iterations), iterations=as_ranges(iterations))
        for (reason, metric), iterations in joined.left_out.items()
    ]


def describe_segments(segments: Sequence[RawSegment], joined: JoinedSteps, paths: Iterable[str]) -> list[Segment]:
    """The segments, for the diagnostics; ``paths`` are their files as they are to be shown."""
    return [
        Segment(path=path, first_iteration=segment.first_step, last_iteration=segment.last_step, steps=count)
        for segment, path, count in zip(segments, paths, joined.segment_counts, strict=True)
    ]


def _rows(segment: RawSegment) -> Iterator[tuple[int, dict[str, float]]]:
    """Each iteration of a segment with the metrics it has, ascending."""
    series = {name: segment.series[name] for name in METRICS if name in segment.series}
    positions = dict.fromkeys(series, 0)
    for iteration in sorted(set().union(*(one.steps for one in series.values()))):
        yield (
            iteration,
            {
                name: value
                for name, one in series.items()
                if (value := _take(one, positions, name, iteration)) is not None
            },
        )


def _take(series: Series, positions: dict[str, int], name: str, iteration: int) -> float | None:
    """The value at ``iteration``, which is asked for in ascending order; ``None`` where there is none."""
    position = positions[name]
    if position == len(series.steps) or series.steps[position] != iteration:
        return None
    positions[name] = position + 1
    return series.values[position]


def _problem(values: Mapping[str, float]) -> tuple[Reason, str | None] | None:
    """Why an iteration is no step, with the metric to blame; ``None`` where it is one."""
    for name, value in values.items():
        if not math.isfinite(value):
            return "non-finite", name
    for name in REQUIRED_METRICS:
        if name not in values:
            return "incomplete", name
    return None
