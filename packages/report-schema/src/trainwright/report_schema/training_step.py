"""One iteration of a training report."""

from trainwright.report_schema.model import ReportModel


class TrainingStep(ReportModel):
    """What one training iteration took and gave."""

    iteration: int
    """The framework's number of the iteration (NeMo counts from 0, Megatron from 1)."""
    step_time_sec: float
    """Seconds of the whole iteration."""
    loss: float
    """Training loss, as the framework logs it."""
    memory_reserved_bytes: float
    """Bytes that the allocator holds from the device."""
    memory_allocated_bytes: float
    """Bytes that tensors occupy."""
    tflops_per_gpu: float | None = None
    """Model TFLOP/s of one device."""
