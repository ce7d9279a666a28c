"""Statistics over the steps of a training report."""

from typing import Any

from trainwright.report_schema.model import ReportModel


class MetricStats(ReportModel):
    """Statistics of one metric over the steps of the window, in the metric's own unit.

    May be built by position: ``MetricStats(mean, min, max, std, t99, t95)``.
    """

    mean: float
    """Arithmetic mean."""
    min: float
    """Smallest value."""
    max: float
    """Largest value."""
    std: float
    """Population standard deviation."""
    t99: float
    """99th percentile, linearly interpolated between the closest ranks."""
    t95: float
    """95th percentile, linearly interpolated between the closest ranks."""

    def __init__(self, *values: float, **named: Any) -> None:
        names = tuple(type(self).model_fields)
        if len(values) > len(names):
            raise TypeError(f"MetricStats takes {len(names)} values, got {len(values)}")
        super().__init__(**dict(zip(names, values, strict=False)), **named)


class StepAggregation(ReportModel):
    """Statistics of each metric over the steps of the window."""

    step_time_sec: MetricStats
    """Seconds of the whole iteration."""
    loss: MetricStats
    """Training loss."""
    memory_reserved_bytes: MetricStats
    """Bytes that the allocator holds from the device."""
    memory_allocated_bytes: MetricStats
    """Bytes that tensors occupy."""
    tflops_per_gpu: MetricStats | None = None
    """Model TFLOP/s of one device, over the steps that have it; ``None`` where none has."""
