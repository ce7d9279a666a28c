"""Comparing two reports, and deciding whether the newer one is worse than a gate allows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Any, Literal

from trainwright.report_schema.bootstrap import CONFIDENCE, interval
from trainwright.report_schema.diagnostics import Diagnostics
from trainwright.report_schema.errors import ReportError, UsageError
from trainwright.report_schema.normalise import differences
from trainwright.report_schema.training_config import TrainingConfig
from trainwright.report_schema.training_results import TrainingResults
from trainwright.report_schema.training_step import TrainingStep
from trainwright.report_schema.window import window_steps

type Verdict = Literal["no gate", "pass", "unclear", "fail"]
"""``fail``: the whole interval is past the gate. ``unclear``: the difference is, but noise may explain it."""

_LOSS_STRETCHES = 10
_SHORTEST_STRETCH = 20


@dataclass(frozen=True)
class Gates:
    """How much worse the newer report may be, as fractions; ``None`` is no gate."""

    max_slowdown: float | None = None
    """Growth of the mean step time (per token and rank, where the two runs' batches or ranks differ)."""
    max_memory_growth: float | None = None
    """Growth of the mean memory, reserved and allocated."""
    loss_tolerance: float | None = None
    """Difference of the loss, up or down, in any stretch of the iterations that both have."""


def parse_fraction(text: str) -> float:
    """``3%`` or ``0.03`` as 0.03.

    Raises:
        UsageError: it is neither, or negative, or 1 and more without a percent sign: who types 3 means 3%.
    """
    number, percent = (text[:-1], 0.01) if text.endswith("%") else (text, 1.0)
    try:
        fraction = float(number) * percent
    except ValueError:
        fraction = math.nan
    if not 0 <= fraction < (math.inf if percent < 1 else 1):
        raise UsageError(f"{text!r}: expected a fraction such as 3% or 0.03")
    return fraction


@dataclass(frozen=True)
class MetricDifference:
    """One metric of two reports, over their windows."""

    metric: str
    unit: str
    base: float | None
    """Mean; ``None`` where the report does not have the metric."""
    new: float | None
    difference: float | None
    """``new / base - 1``"""
    interval: tuple[float, float] | None
    """Ends of the difference's 95% confidence interval; ``None`` where the steps are too few for one."""
    gate: float | None
    verdict: Verdict
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """Two reports side by side."""

    config: list[tuple[str, Any, Any]]
    """Field, base's value, new's value, where the normalised configurations differ."""
    metrics: list[MetricDifference]

    @property
    def failed(self) -> bool:
        """Whether any gate is certainly passed."""
        return any(metric.verdict == "fail" for metric in self.metrics)


@dataclass(frozen=True)
class Side:
    """A report to compare, and its diagnostics where there are any."""

    report: TrainingResults
    diagnostics: Diagnostics | None = None


def compare(base: Side, new: Side, gates: Gates = Gates()) -> Comparison:
    """Compare two reports.

    Raises:
        ReportError: a report has no step in its window.
    """
    windows = [window_steps(side.report, side.diagnostics) for side in (base, new)]
    for name, window in zip(("base", "new"), windows, strict=True):
        if not window:
            raise ReportError(f"the {name} report has no step outside start-up and profiling: nothing to compare")
    configs = base.report.config, new.report.config
    factor, time_note = _time_scale(*configs)
    metrics = [
        _mean_difference("step_time_sec", "s", windows, gates.max_slowdown, factor=factor, note=time_note),
        _with_divergence(_loss_difference(windows, configs, gates.loss_tolerance), new.diagnostics),
        _mean_difference("memory_reserved_bytes", "B", windows, gates.max_memory_growth),
        _mean_difference("memory_allocated_bytes", "B", windows, gates.max_memory_growth),
        _mean_difference("tflops_per_gpu", "TFLOP/s", windows, None),
    ]
    return Comparison(differences(*configs), metrics)


def _mean_difference(
    metric: str,
    unit: str,
    windows: Sequence[Sequence[TrainingStep]],
    gate: float | None,
    *,
    factor: float = 1.0,
    note: str = "",
) -> MetricDifference:
    """Difference of a metric's means; more is worse. ``factor`` is applied to the ratio."""
    samples = [[value for step in window if (value := getattr(step, metric)) is not None] for window in windows]
    means = [fmean(sample) if sample else None for sample in samples]
    base, new = means
    if base is None or new is None or base == 0:
        undecided: Verdict = "no gate" if gate is None else "unclear"
        return MetricDifference(metric, unit, base, new, None, None, gate, undecided, "not in both reports")
    difference = factor * new / base - 1
    ends = interval(samples, lambda base, new: factor * new / base - 1)
    return MetricDifference(metric, unit, base, new, difference, ends, gate, _verdict(difference, ends, gate), note)


def _verdict(difference: float, ends: tuple[float, float] | None, gate: float | None) -> Verdict:
    if gate is None:
        return "no gate"
    if difference <= gate:
        return "pass"
    return "fail" if ends is not None and ends[0] > gate else "unclear"


def _time_scale(base: TrainingConfig, new: TrainingConfig) -> tuple[float, str]:
    """What to multiply the ratio of step times by, so that it is per token and rank, and a note where it is not 1."""
    work = [config.global_batch_size * config.seq_length for config in (base, new)]
    ranks = [config.world_size for config in (base, new)]
    if 0 in work:
        return 1.0, "the tokens of a step are unknown"
    if None in ranks and work[0] != work[1]:
        return work[0] / work[1], "per token: batches differ, a world size is unknown"
    per_rank = (ranks[1] or 1) / (ranks[0] or 1) if None not in ranks else 1.0
    factor = work[0] / work[1] * per_rank
    same = work[0] == work[1] and per_rank == 1.0
    return factor, "" if same else "per token and rank: batches or ranks differ"


def _loss_difference(
    windows: Sequence[Sequence[TrainingStep]], configs: Sequence[TrainingConfig], gate: float | None
) -> MetricDifference:
    """Paired difference of the loss, at the worst of ten stretches of the iterations that both windows have.

    A run that diverges at its end is caught there, where a mean over all of it would hide it. The interval is wider for
    that choice (Bonferroni), so that the worst of ten noisy stretches fails no more often than one would.
    """
    losses = [
        {step.iteration + _origin_shift(config): step.loss for step in window}
        for window, config in zip(windows, configs, strict=True)
    ]
    shared = sorted(losses[0].keys() & losses[1].keys())
    base, new = (fmean(one.values()) for one in losses)
    pairs = [(i, losses[1][i] / losses[0][i] - 1) for i in shared if losses[0][i] != 0]
    if not pairs:
        verdict: Verdict = "no gate" if gate is None else "fail"
        return MetricDifference("loss", "", base, new, None, None, gate, verdict, "no iteration is in both windows")
    stretches = _stretches(pairs)
    worst = max(stretches, key=lambda stretch: abs(fmean(change for _, change in stretch)))
    changes = [change for _, change in worst]
    difference = fmean(changes)
    ends = interval([changes], lambda mean: mean, confidence=1 - (1 - CONFIDENCE) / len(stretches))
    upwards = ends if ends is None or difference >= 0 else (-ends[1], -ends[0])
    verdict = _verdict(abs(difference), upwards, gate)
    note = f"paired, worst at iterations {worst[0][0]} to {worst[-1][0]} of {len(pairs)} shared"
    return MetricDifference("loss", "", base, new, difference, ends, gate, verdict, note)


def _with_divergence(loss: MetricDifference, new: Diagnostics | None) -> MetricDifference:
    """Iterations whose loss was not finite are not in the report, so its steps cannot show them: the gate fails."""
    found = [one for one in new.left_out if one.reason == "non-finite"] if new is not None else []
    if not found:
        return loss
    note = f"{sum(one.count for one in found)} iterations of the new run are not finite; {loss.note}"
    return replace(loss, note=note, verdict="no gate" if loss.gate is None else "fail")


def _origin_shift(config: TrainingConfig) -> int:
    """NeMo counts iterations from 0, the others from 1."""
    return 1 if config.test_template_name == "NeMoRun" else 0


def _stretches(pairs: list[tuple[int, float]]) -> list[list[tuple[int, float]]]:
    count = max(1, min(_LOSS_STRETCHES, len(pairs) // _SHORTEST_STRETCH))
    edges = [len(pairs) * index // count for index in range(count + 1)]
    return [pairs[start:end] for start, end in pairwise(edges)]
