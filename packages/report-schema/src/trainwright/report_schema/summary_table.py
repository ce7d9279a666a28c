"""Many reports as the rows of one table."""

from collections.abc import Callable, Sequence
from typing import Any

from trainwright.report_schema.compare import Side
from trainwright.report_schema.errors import UsageError
from trainwright.report_schema.tables import TABLE_FORMATS
from trainwright.report_schema.training_results import TrainingResults


def _layout(report: TrainingResults) -> str:
    config = report.config
    sizes = {
        "tp": config.tensor_parallel_size,
        "pp": config.pipeline_parallel_size,
        "vp": config.virtual_pipeline_parallel_size or 1,
        "cp": config.context_parallel_size or 1,
        "ep": config.expert_parallel_size,
        "dp": config.data_parallel_size or 1,
    }
    return " ".join(f"{name}{size}" for name, size in sizes.items() if size > 1) or "-"


def _mean(metric: str, factor: float = 1.0) -> Callable[[TrainingResults], float | None]:
    def value(report: TrainingResults) -> float | None:
        stats = getattr(report.aggregation, metric, None)
        return None if stats is None else stats.mean * factor

    return value


def _tokens_per_second_per_rank(report: TrainingResults) -> float | None:
    config, seconds = report.config, _mean("step_time_sec")(report)
    if not seconds or not config.world_size:
        return None
    return config.global_batch_size * config.seq_length / seconds / config.world_size


_COLUMNS: dict[str, Callable[[TrainingResults], Any]] = {
    "test": lambda report: report.config.test_name,
    "workload": lambda report: report.config.test_template_name,
    "ranks": lambda report: report.config.world_size,
    "layout": _layout,
    "batch": lambda report: report.config.global_batch_size,
    "seq": lambda report: report.config.seq_length,
    "steps": lambda report: len(report.steps),
    "s/step": _mean("step_time_sec"),
    "tokens/s/rank": _tokens_per_second_per_rank,
    "TFLOP/s/device": _mean("tflops_per_gpu"),
    "reserved GB": _mean("memory_reserved_bytes", 1e-9),
    "last loss": lambda report: report.steps[-1].loss if report.steps else None,
}
COLUMN_NAMES = ("run", *_COLUMNS, "warnings")


def summary_table(
    runs: Sequence[tuple[str, Side]], *, sort_by: str | None = None, descending: bool = False, format: str = "text"
) -> str:
    """One row a report; means are over its window.

    Args:
        runs: what to call each report, and the report.
        sort_by: a column of :data:`COLUMN_NAMES`; the order given where it is ``None``. Unknown values come last.
        descending: largest first.
        format: ``text``, ``markdown`` or ``csv``.

    Raises:
        UsageError: there is no such column or format.
    """
    if sort_by is not None and sort_by not in COLUMN_NAMES:
        raise UsageError(f"no column {sort_by!r}: one of {', '.join(COLUMN_NAMES)}")
    if format not in TABLE_FORMATS:
        raise UsageError(f"no table format {format!r}: one of {', '.join(TABLE_FORMATS)}")
    rows = [_row(label, side) for label, side in runs]
    if sort_by is not None:
        column = COLUMN_NAMES.index(sort_by)
        known = sorted(
            (row for row in rows if row[column] is not None), key=lambda row: row[column], reverse=descending
        )
        rows = known + [row for row in rows if row[column] is None]
    digits = 17 if format == "csv" else 5  # A spreadsheet takes every digit, a person five.
    return TABLE_FORMATS[format](COLUMN_NAMES, [[_cell(value, digits) for value in row] for row in rows])


def _row(label: str, side: Side) -> list[Any]:
    warnings = None if side.diagnostics is None else len(side.diagnostics.warnings)
    return [label, *(value(side.report) for value in _COLUMNS.values()), warnings]


def _cell(value: Any, digits: int) -> str:
    if value is None:
        return "-"
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)
