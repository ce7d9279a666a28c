"""Which steps of a report its aggregation is over."""

from collections.abc import Sequence

from trainwright.report_schema.diagnostics import Diagnostics, Excluded, Window
from trainwright.report_schema.ranges import as_ranges
from trainwright.report_schema.training_config import TrainingConfig
from trainwright.report_schema.training_results import TrainingResults
from trainwright.report_schema.training_step import TrainingStep


def select_window(
    steps: Sequence[TrainingStep],
    config: TrainingConfig,
    *,
    segment_starts: Sequence[int] = (0,),
    exclude_after_restart: int = 0,
) -> tuple[list[TrainingStep], Window]:
    """Leave out the warm-up and the profiled steps.

    - the first ``config.exclude_start_steps`` steps, by position: steps that were never logged in full do not count;
    - the first ``exclude_after_restart`` steps of each later segment, by position too;
    - iterations from ``profiling_start_step`` to ``profiling_stop_step + exclude_post_profiling_steps``, both
      included, where profiling is enabled and both bounds are known.

    Args:
        steps: the report's steps, in order.
        config: gives the counts and the profiled iterations.
        segment_starts: position in ``steps`` at which each segment starts, the first at 0.
        exclude_after_restart: how many steps to leave out after each restart.

    Returns:
        The steps of the window, and its description for the diagnostics.
    """
    profiled = _profiled(config)
    reasons: dict[int, str] = {}
    for position, step in enumerate(steps):
        if profiled is not None and profiled[0] <= step.iteration <= profiled[1] + config.exclude_post_profiling_steps:
            reasons[position] = "profiling"
    for start in segment_starts[1:]:
        reasons |= dict.fromkeys(range(start, min(start + exclude_after_restart, len(steps))), "restart")
    reasons |= dict.fromkeys(range(min(config.exclude_start_steps, len(steps))), "start")

    kept = [step for position, step in enumerate(steps) if position not in reasons]
    return kept, Window(
        exclude_start_steps=config.exclude_start_steps,
        exclude_after_restart=exclude_after_restart,
        exclude_post_profiling_steps=config.exclude_post_profiling_steps,
        profiling_start_step=profiled[0] if profiled else None,
        profiling_stop_step=profiled[1] if profiled else None,
        excluded=_excluded(steps, reasons),
        steps=len(kept),
        first_iteration=kept[0].iteration if kept else None,
        last_iteration=kept[-1].iteration if kept else None,
    )


def window_steps(report: TrainingResults, diagnostics: Diagnostics | None = None) -> list[TrainingStep]:
    """The steps that a report's aggregation is over: as its diagnostics say, else by its configuration."""
    if diagnostics is None:
        return select_window(report.steps, report.config)[0]
    ranges = [range(first, last + 1) for one in diagnostics.window.excluded for first, last in one.iterations]
    return [step for step in report.steps if not any(step.iteration in excluded for excluded in ranges)]


def _profiled(config: TrainingConfig) -> tuple[int, int] | None:
    start, stop = config.profiling_start_step, config.profiling_stop_step
    return (start, stop) if config.profiling_enabled and start is not None and stop is not None else None


def _excluded(steps: Sequence[TrainingStep], reasons: dict[int, str]) -> list[Excluded]:
    found: list[Excluded] = []
    for reason in ("start", "restart", "profiling"):
        iterations = [steps[position].iteration for position, why in reasons.items() if why == reason]
        if iterations:
            found.append(Excluded(reason=reason, count=len(iterations), iterations=as_ranges(iterations)))
    return found
