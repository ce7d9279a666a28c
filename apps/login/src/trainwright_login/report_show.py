"""A training report as tables on the terminal."""

import itertools
import math
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trainwright.report_schema import Diagnostics, MetricStats, TrainingConfig, TrainingResults, TrainingStep

_BARS = "▁▂▃▄▅▆▇█"
_SPARKLINE_WIDTH = 32
_EDGE_STEPS = 3
_DIFFERENCES = 4
_STATISTICS = ("mean", "std", "min", "max", "t95", "t99")

# Field, heading, factor to the unit shown.
_METRICS = (
    ("step_time_sec", "s/step", 1.0),
    ("loss", "loss", 1.0),
    ("memory_reserved_bytes", "reserved GB", 1e-9),
    ("memory_allocated_bytes", "allocated GB", 1e-9),
    ("tflops_per_gpu", "TFLOP/s/device", 1.0),
)


def print_report(report: TrainingResults, diagnostics: Diagnostics | None, *, title: str) -> None:
    """Print the configuration, the first and last steps, the statistics, and the warnings."""
    console = Console()
    console.print(f"[bold]{escape(report.config.test_name)}[/bold]  {escape(title)}", highlight=False, soft_wrap=True)
    for table in (_config_table(report.config), _steps_table(report), _statistics_table(report), _curves(report)):
        console.print(table)
    if diagnostics is not None:
        window = diagnostics.window
        console.print(
            f"statistics over {window.steps} of {len(report.steps)} steps"
            + (f", iterations {window.first_iteration} to {window.last_iteration}" if window.steps else "")
            + (
                ""
                if diagnostics.canonical is None
                else f"; recipe unchanged: {'yes' if diagnostics.canonical else 'no'}"
            ),
            highlight=False,
            soft_wrap=True,
        )
        for difference in _first(diagnostics.canonical_differences):
            console.print(f"  {escape(difference)}", highlight=False, soft_wrap=True)
        for warning in diagnostics.warnings:
            console.print(f"[yellow]warning:[/yellow] {escape(warning)}", highlight=False, soft_wrap=True)


def _first(differences: Sequence[str]) -> Iterator[str]:
    """The first few of what makes a run another one than its recipe, and how many more there are."""
    yield from differences[:_DIFFERENCES]
    if len(differences) > _DIFFERENCES:
        yield f"and {len(differences) - _DIFFERENCES} more in the diagnostics"


def sparkline(values: Sequence[float], width: int = _SPARKLINE_WIDTH) -> str:
    """Values as a line of bars between the smallest and the largest; each bar is the mean of a stretch."""
    buckets = min(width, len(values))
    edges = [len(values) * index // buckets for index in range(buckets + 1)] if buckets else []
    means = [math.fsum(values[start:end]) / (end - start) for start, end in itertools.pairwise(edges)]
    if not means:
        return ""
    low, high = min(means), max(means)
    if high == low:
        return _BARS[0] * buckets
    return "".join(_BARS[round((value - low) / (high - low) * (len(_BARS) - 1))] for value in means)


def _config_table(config: TrainingConfig) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, said in _config_lines(config):
        table.add_row(f"[dim]{name}[/dim]", escape(said))
    return table


def _config_lines(config: TrainingConfig) -> Iterator[tuple[str, str]]:
    yield "run", " · ".join(filter(None, (config.test_id, config.test_template_name, config.test_scenario_name)))
    ranks = "unknown" if config.world_size is None else str(config.world_size)
    machines = f"{config.num_nodes} node{'s'[: config.num_nodes != 1]}"
    gpus = "" if config.gpus_per_node is None else f" with {config.gpus_per_node} GPUs each"
    yield "ranks", f"{ranks} on {machines}{gpus}"
    yield (
        "parallel",
        f"TP {config.tensor_parallel_size}{' + SP' if config.sequence_parallel else ''} · "
        f"PP {config.pipeline_parallel_size} (VP {config.virtual_pipeline_parallel_size or 1}) · "
        f"CP {config.context_parallel_size or 1} · {_expert_parallel(config)}"
        f"DP {config.data_parallel_size or 'unknown'}",
    )
    yield (
        "batch",
        f"{config.global_batch_size} sequences of {config.seq_length} tokens, micro-batch {config.micro_batch_size}",
    )
    yield (
        "model",
        f"{config.model_name or 'unnamed'}: {config.num_layers} layers · hidden {config.hidden_size} · FFN "
        f"{config.ffn_hidden_size} · {config.num_attention_heads} heads of {config.kv_channels}, "
        f"{config.num_query_groups} query groups · {config.normalization} · {config.position_embedding_type}",
    )
    if config.num_experts:
        yield "experts", f"{config.num_experts}, top {config.moe_router_topk}, FFN {config.moe_ffn_hidden_size}"
    if config.fp8:
        yield "FP8", f"{config.fp8}, {config.fp8_recipe}"
    if config.profiling_enabled:
        yield "profiled", f"iterations {config.profiling_start_step} to {config.profiling_stop_step}"


def _expert_parallel(config: TrainingConfig) -> str:
    """Nothing for a dense model, whose expert sizes mean nothing."""
    if not config.num_experts:
        return ""
    return f"EP {config.expert_parallel_size} (ETP {config.expert_tensor_parallel_size}) · "


def _steps_table(report: TrainingResults) -> Table:
    steps = report.steps
    table = _table(f"{len(steps)} step{'s'[: len(steps) != 1]}", "iteration", *(heading for _, heading, _ in _METRICS))
    gap = len(steps) > 2 * _EDGE_STEPS
    for step in steps[:_EDGE_STEPS] if gap else steps:
        table.add_row(*_step_cells(step))
    if gap:
        table.add_row(*["…"] * (len(_METRICS) + 1))
        for step in steps[-_EDGE_STEPS:]:
            table.add_row(*_step_cells(step))
    return table


def _step_cells(step: TrainingStep) -> list[str]:
    return [str(step.iteration), *(_number(getattr(step, field), factor) for field, _, factor in _METRICS)]


def _statistics_table(report: TrainingResults) -> Table:
    table = _table("statistics", "", *_STATISTICS)
    for field, heading, factor in _METRICS:
        stats: MetricStats | None = getattr(report.aggregation, field, None)
        # Six columns of four digits fit a terminal of 80 columns.
        table.add_row(heading, *(_number(getattr(stats, name, None), factor, digits=4) for name in _STATISTICS))
    return table


def _curves(report: TrainingResults) -> Table:
    table = _table("over all steps", "", "first", "last", "")
    for field, heading, factor in _METRICS:
        values = [value for step in report.steps if (value := getattr(step, field)) is not None]
        ends = (values[0], values[-1]) if values else (None, None)
        table.add_row(heading, *(_number(end, factor) for end in ends), sparkline(values))
    return table


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index else "left", no_wrap=True)
    return table


def _number(value: float | None, factor: float, *, digits: int = 5) -> str:
    return "-" if value is None else f"{value * factor:.{digits}g}"
