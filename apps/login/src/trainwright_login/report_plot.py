"""Training reports as a picture: PNG, SVG, or an HTML page that needs nothing else."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.report_schema import Diagnostics, ReportError, TrainingResults
from trainwright.report_schema.window import select_window

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_POINTS = 4000
"""Points of one curve; beyond that, each stretch is drawn by its extremes."""


@dataclass
class PlottedRun:
    """One report in a picture."""

    label: str
    report: TrainingResults
    diagnostics: Diagnostics | None


def write_plot(runs: Sequence[PlottedRun], output: Path) -> None:
    """Draw the runs over each other and write the picture, whole or not at all.

    Raises:
        ReportError: no run has a step, or the file cannot be written.
    """
    from trainwright.report_schema.strict_json import write_atomically

    if not any(run.report.steps for run in runs):
        raise ReportError("nothing to plot: no report has a step")
    figure = draw(runs)
    if output.suffix == ".html":
        write_atomically(output, _page(runs, _rendered(figure, "svg").decode()).encode())
    else:
        write_atomically(output, _rendered(figure, output.suffix[1:]))


def draw(runs: Sequence[PlottedRun]) -> "Figure":
    """Four panels over the iterations: loss, step time, memory, TFLOP/s."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 8), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True)
    loss, time, memory, speed = panels.flat
    for index, run in enumerate(runs):
        colour = f"C{index}"
        _curve(loss, run, "loss", colour=colour, label=run.label)
        _mark_non_finite(loss, run, colour)
        _curve(time, run, "step_time_sec", colour=colour, label=run.label)
        _shade_excluded(time, run, colour)
        _curve(memory, run, "memory_reserved_bytes", colour=colour, label=f"{run.label}: reserved", factor=1e-9)
        _curve(
            memory,
            run,
            "memory_allocated_bytes",
            colour=colour,
            label=f"{run.label}: allocated",
            factor=1e-9,
            linestyle="--",
        )
        _curve(speed, run, "tflops_per_gpu", colour=colour, label=run.label)
    for panel, title, unit in (
        (loss, "Loss", "loss"),
        (time, "Step time", "seconds"),
        (memory, "Memory", "GB (10⁹ bytes)"),
        (speed, "Throughput", "TFLOP/s per device"),
    ):
        panel.set(title=title, ylabel=unit)
        panel.grid(alpha=0.3)
        if panel.lines:
            panel.legend(fontsize="small")
        else:
            panel.text(0.5, 0.5, "not logged", transform=panel.transAxes, ha="center", va="center")
        panel.margins(x=0.01)
    for panel in (time, memory, speed):
        panel.set_ylim(0, panel.get_ylim()[1] * 1.05)
    _fit_to_window(time, runs)
    for panel in panels[1]:
        panel.set_xlabel("iteration")
    figure.suptitle(", ".join(dict.fromkeys(run.report.config.test_name or run.label for run in runs)))
    return figure


def _curve(
    panel: "Axes", run: PlottedRun, field: str, *, colour: str, label: str, factor: float = 1.0, linestyle: str = "-"
) -> None:
    points = [(step.iteration, value) for step in run.report.steps if (value := getattr(step, field)) is not None]
    if not points:
        return
    points = _thinned(points)
    marker = "." if len(points) < 30 else ""
    panel.plot(
        [iteration for iteration, _ in points],
        [value * factor for _, value in points],
        color=colour,
        linestyle=linestyle,
        linewidth=1.2,
        alpha=0.8,  # A curve that another one hides shows through.
        marker=marker,
        label=label,
    )


def _thinned(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """At most :data:`_MAX_POINTS` points: the smallest and the largest of each stretch, so that no spike is lost."""
    if len(points) <= _MAX_POINTS:
        return points
    stretch = -(-2 * len(points) // _MAX_POINTS)
    kept: list[tuple[int, float]] = []
    for start in range(0, len(points), stretch):
        part = points[start : start + stretch]
        kept += sorted({min(part, key=lambda point: point[1]), max(part, key=lambda point: point[1])})
    return kept


def _mark_non_finite(panel: "Axes", run: PlottedRun, colour: str) -> None:
    """Crosses along the top where an iteration was left out because a number was not finite."""
    if run.diagnostics is None:
        return
    found = [one for one in run.diagnostics.left_out if one.reason == "non-finite"]
    iterations = sorted(i for one in found for first, last in one.iterations for i in range(first, last + 1))
    if iterations:
        panel.plot(
            iterations[:: -(-len(iterations) // _MAX_POINTS)],
            [0.97] * len(iterations[:: -(-len(iterations) // _MAX_POINTS)]),
            color=colour,
            linestyle="",
            marker="x",
            transform=panel.get_xaxis_transform(),
            label=f"{run.label}: not finite ({len(iterations)})",
        )


def _shade_excluded(panel: "Axes", run: PlottedRun, colour: str) -> None:
    """Grey behind the iterations that the statistics leave out."""
    window = run.diagnostics.window if run.diagnostics else select_window(run.report.steps, run.report.config)[1]
    label: str | None = f"{run.label}: not in the statistics"
    for excluded in window.excluded:
        for first, last in excluded.iterations:
            panel.axvspan(first - 0.5, last + 0.5, color=colour, alpha=0.12, linewidth=0, label=label)
            label = None


def _fit_to_window(panel: "Axes", runs: Sequence[PlottedRun]) -> None:
    """Scale the step times to the steps that count: a first step of a minute would flatten all the others."""
    slowest = [run.report.aggregation.step_time_sec.max for run in runs if run.report.aggregation is not None]
    if slowest and 1.25 * max(slowest) < panel.get_ylim()[1]:
        panel.set_ylim(0, 1.25 * max(slowest))


def _rendered(figure: "Figure", kind: str) -> bytes:
    from matplotlib import rc_context

    stream = io.BytesIO()
    options: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {"dpi": 120}
    # Text stays text, that a reader can search and copy; ids do not change from one drawing to the next.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "trainwright"}):
        figure.savefig(stream, format=kind, **options)
    return stream.getvalue()


def _page(runs: Sequence[PlottedRun], svg: str) -> str:
    """The picture, the summary of each run, and what a reader should know of it."""
    from trainwright.report_schema.compare import Side
    from trainwright.report_schema.summary_table import summary_table

    title = f"Training report: {escape(', '.join(run.label for run in runs))}"
    summary = summary_table([(run.label, Side(run.report, run.diagnostics)) for run in runs])
    warnings = [
        f"<li>{escape(run.label)}: {escape(warning)}</li>\n"
        for run in runs
        for warning in (run.diagnostics.warnings if run.diagnostics else ())
    ]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>body {{ font-family: sans-serif; max-width: 1200px; margin: 1em auto }} svg {{ width: 100%; height: auto }}
pre {{ overflow-x: auto }}</style>
</head>
<body>
<h1>{title}</h1>
{svg[svg.index("<svg") :]}
<pre>{escape(summary)}</pre>
<ul>
{"".join(warnings)}</ul>
</body>
</html>
"""
