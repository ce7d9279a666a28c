"""What a reader of a report should know, one line each."""

from collections.abc import Sequence
from statistics import median

from trainwright.report_schema.diagnostics import LeftOut, Segment, UnreadBytes, Window
from trainwright.report_schema.ranges import ranges_text
from trainwright.report_schema.training_config import TrainingConfig
from trainwright.report_schema.training_step import TrainingStep


def config_findings(config: TrainingConfig) -> list[str]:
    """A line where what is known of the machines contradicts the number of ranks."""
    if config.world_size is None or config.gpus_per_node is None:
        return []
    gpus = config.num_nodes * config.gpus_per_node
    if config.world_size == gpus:
        return []
    return [f"the run had {config.world_size} ranks, but {config.num_nodes} x {config.gpus_per_node} GPUs are {gpus}"]


def unread_findings(unread: Sequence[UnreadBytes]) -> list[str]:
    """One line a damaged file."""
    lines: list[str] = []
    for path in dict.fromkeys(one.path for one in unread):
        places = [one for one in unread if one.path == path]
        size = sum(one.size_bytes for one in places)
        more = f", and at {len(places) - 1} more places" if len(places) > 1 else ""
        lines.append(f"{path}: {size} bytes could not be read: {places[0].reason} at byte {places[0].offset}{more}")
    return lines


def left_out_findings(left_out: Sequence[LeftOut]) -> list[str]:
    """One line for each reason and metric for which iterations are not in the report."""
    said = {
        "rolled-back": "were trained again after a restart; the first attempt is not in the report",
        "incomplete": "are not in the report: {metric} was not logged",
        "non-finite": "are not in the report: {metric} is not finite",
    }
    return [
        f"{one.count} iteration{'s'[: one.count > 1]} ({ranges_text(one.iterations)}) "
        + said[one.reason].format(metric=one.metric)
        for one in left_out
    ]


def repeated_findings(count: int) -> list[str]:
    """A line where values were logged again, as two loggers at once would."""
    if count == 0:
        return []
    return [f"{count} value{'s'[: count > 1]} logged again for the same metric and iteration: the last one counts"]


def segment_findings(segments: Sequence[Segment]) -> list[str]:
    """A line where a later segment starts before an earlier one began: its files may not be in order of time."""
    for index, later in enumerate(segments):
        for earlier in segments[:index]:
            if later.first_iteration < earlier.first_iteration:
                return [
                    f"{later.path} starts at iteration {later.first_iteration}, before {earlier.path} "
                    f"({earlier.first_iteration}) that its name says is older: if the hosts' clocks differ, rename it"
                ]
    return []


def window_findings(
    steps: Sequence[TrainingStep], window: Window, segment_starts: Sequence[int], config: TrainingConfig
) -> list[str]:
    """Lines on an empty window, a profiler with unknown bounds, and warm-up after a restart in the window."""
    if not steps:
        return ["no iteration is complete: the report has no steps"]
    if window.steps == 0:
        return [f"no step is left to aggregate: all {len(steps)} are excluded as start-up, restart or profiling"]
    lines = []
    if config.profiling_enabled and window.profiling_start_step is None:
        lines.append("a profiler ran, but it is not known when: its steps are in the aggregation")
    warm_up = config.exclude_start_steps
    if window.exclude_after_restart < warm_up:
        usual = median(step.step_time_sec for step in steps)
        for start in segment_starts[1:]:
            first = steps[start : start + warm_up]
            if first:
                slowest = max(step.step_time_sec for step in first)
                lines.append(
                    f"warm-up after the restart at iteration {first[0].iteration} is in the aggregation (up to "
                    f"{slowest:.3f} s a step; the median is {usual:.3f} s): "
                    f"--exclude-after-restart {warm_up} removes it"
                )
    return lines
