"""Statistics over the steps of a report's window."""

import math
import statistics
from collections.abc import Sequence

from trainwright.report_schema.step_aggregation import MetricStats, StepAggregation
from trainwright.report_schema.training_step import TrainingStep


def metric_stats(values: Sequence[float]) -> MetricStats:
    """Mean, extremes, population standard deviation and percentiles of at least one finite value.

    Percentiles interpolate linearly between the closest ranks, both ends included (numpy's ``linear``, the
    ``inclusive`` method of :mod:`statistics`).
    """
    mean = statistics.fmean(values)
    ordered = sorted(values)
    return MetricStats(
        mean,
        ordered[0],
        ordered[-1],
        math.hypot(*(value - mean for value in values)) / math.sqrt(len(values)),
        _percentile(ordered, 99),
        _percentile(ordered, 95),
    )


def aggregate(window: Sequence[TrainingStep]) -> StepAggregation | None:
    """Statistics of each metric over the steps of the window; ``None`` where it is empty."""
    if not window:
        return None
    tflops = [step.tflops_per_gpu for step in window if step.tflops_per_gpu is not None]
    return StepAggregation(
        step_time_sec=metric_stats([step.step_time_sec for step in window]),
        loss=metric_stats([step.loss for step in window]),
        memory_reserved_bytes=metric_stats([step.memory_reserved_bytes for step in window]),
        memory_allocated_bytes=metric_stats([step.memory_allocated_bytes for step in window]),
        tflops_per_gpu=metric_stats(tflops) if tflops else None,
    )


def _percentile(ordered: Sequence[float], percent: int) -> float:
    whole, hundredths = divmod((len(ordered) - 1) * percent, 100)
    if hundredths == 0:
        return ordered[whole]
    return ordered[whole] + (ordered[whole + 1] - ordered[whole]) * (hundredths / 100)
