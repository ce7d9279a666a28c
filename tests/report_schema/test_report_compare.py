"""Comparing reports: what differs, how sure that is, and when a gate fails."""

import json
import random
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.report_schema.sample_report import CONFIG, step

from trainwright.report_schema import ReportError, TrainingResults, UsageError
from trainwright.report_schema.bootstrap import _student_quantile, interval
from trainwright.report_schema.compare import Comparison, Gates, MetricDifference, Side, compare, parse_fraction
from trainwright.report_schema.comparison_formats import COMPARISON_FORMATS
from trainwright.report_schema.normalise import differences
from trainwright.report_schema.summary_table import summary_table
from trainwright.report_schema.training_config import TrainingConfig


def report(
    seed: int, *, slow: float = 1.0, noise: float = 0.03, steps: int = 100, first: int = 1, **config: Any
) -> TrainingResults:
    """A run whose step times wander (each remembers half of the last deviation)."""
    generator = random.Random(seed)
    rows, deviation = [], 0.0
    for i in range(first, first + steps):
        deviation = 0.5 * deviation + generator.gauss(0, noise)
        rows.append(step(i, step_time_sec=0.5 * slow * (1 + deviation), loss=10 / (i + 1 - first)))
    return TrainingResults.model_validate({"schema_version": "1.0", "config": {**CONFIG, **config}, "steps": rows})


def metric(comparison: Comparison, name: str) -> MetricDifference:
    (found,) = [one for one in comparison.metrics if one.metric == name]
    return found


GATE = Gates(max_slowdown=0.03, max_memory_growth=0.02, loss_tolerance=1e-3)


def test_same_report_differs_in_nothing() -> None:
    """No difference, an interval of no width where nothing varies, every gate passed."""
    side = Side(report(1))
    comparison = compare(side, side, GATE)
    assert comparison.config == [] and not comparison.failed
    assert [one.difference for one in comparison.metrics] == [0] * 5
    memory = metric(comparison, "memory_reserved_bytes")
    assert (memory.interval, memory.verdict) == ((0, 0), "pass")


@pytest.fixture(scope="module")
def pairs() -> list[tuple[TrainingResults, TrainingResults]]:
    """Forty pairs of runs that differ in nothing but noise."""
    return [(report(2 * i), report(2 * i + 1)) for i in range(40)]


def verdicts(pairs: list[tuple[TrainingResults, TrainingResults]], gates: Gates) -> list[str]:
    return [metric(compare(Side(base), Side(new), gates), "step_time_sec").verdict for base, new in pairs]


def test_noise_alone_hardly_ever_fails_a_build(pairs: list[tuple[TrainingResults, TrainingResults]]) -> None:
    """With more noise than the gate allows, a few in a hundred fail; the point estimate alone would fail a third."""
    found = verdicts(pairs, Gates(max_slowdown=0.005))
    assert found.count("fail") <= 2
    assert found.count("unclear") >= 8


def test_real_slowdown_fails(pairs: list[tuple[TrainingResults, TrainingResults]]) -> None:
    """Seven percent slower past a gate of three, under the same noise, is found nearly always."""
    slower = [(base, report(1000 + i, slow=1.07)) for i, (base, _) in enumerate(pairs)]
    found = verdicts(slower, GATE)
    assert found.count("fail") >= 35 and found.count("pass") == 0


def test_interval_covers_the_truth_at_its_level(pairs: list[tuple[TrainingResults, TrainingResults]]) -> None:
    """Over correlated noise, nearly all intervals hold the true difference of zero."""
    intervals = [metric(compare(Side(base), Side(new)), "step_time_sec").interval for base, new in pairs]
    assert sum(ends is not None and ends[0] <= 0 <= ends[1] for ends in intervals) >= 34


def test_interval_is_the_same_each_time_and_about_the_statistic() -> None:
    """The draws are seeded; the interval lies about the statistic."""
    sample = [1.0, 2.0, 3.0, 10.0]
    first = interval([sample], lambda mean: mean)
    assert first is not None and first == interval([sample], lambda mean: mean)
    assert first[0] < 4.0 < first[1] and sum(first) == pytest.approx(8.0)


def test_interval_widens_with_its_level() -> None:
    """More confidence, less precision."""
    sample = [float(i % 7) for i in range(60)]
    narrow, wide = (interval([sample], lambda mean: mean, confidence=level) for level in (0.9, 0.99))
    assert narrow is not None and wide is not None and wide[0] < narrow[0] < narrow[1] < wide[1]


def test_one_value_tells_nothing_of_its_noise() -> None:
    """No interval, rather than one of no width."""
    assert interval([[4.0], [2.0, 3.0]], lambda a, b: a / b) is None


@pytest.mark.parametrize(
    ("probability", "freedom", "quantile"),
    # From a table of Student's t.
    [(0.975, 3, 3.182), (0.975, 10, 2.228), (0.975, 100, 1.984), (0.995, 5, 4.032), (0.95, 4, 2.132)],
)
def test_student_quantiles_are_those_of_the_tables(probability: float, freedom: int, quantile: float) -> None:
    """Within two percent, down to three degrees of freedom."""
    assert _student_quantile(probability, freedom) == pytest.approx(quantile, rel=0.02)


def test_memory_growth_fails() -> None:
    """Memory does not vary, so any growth past the gate is certain."""
    base, new = report(1), report(1)
    for one in new.steps:
        one.memory_allocated_bytes *= 1.021
    comparison = compare(Side(base), Side(new), GATE)
    assert metric(comparison, "memory_allocated_bytes").verdict == "fail"
    assert metric(comparison, "memory_reserved_bytes").verdict == "pass"


@pytest.mark.parametrize("factor", [1.01, 0.99])
def test_loss_that_drifts_away_late_fails(factor: float) -> None:
    """The last steps are off by a percent, up or down: the mean over the run would pass."""
    base, new = report(1, steps=200), report(1, steps=200)
    for one in new.steps[-25:]:
        one.loss *= factor
    loss = metric(compare(Side(base), Side(new), Gates(loss_tolerance=5e-3)), "loss")
    assert loss.verdict == "fail" and "to 200 of 195 shared" in loss.note


def test_loss_noise_is_told_from_drift() -> None:
    """Losses that scatter around each other by more than the tolerance are no certain failure."""
    base, new = report(1), report(1)
    generator = random.Random(3)
    for one in new.steps:
        one.loss *= 1 + generator.gauss(0, 0.01)
    assert metric(compare(Side(base), Side(new), GATE), "loss").verdict in ("pass", "unclear")


def test_loss_without_shared_iterations_fails_its_gate() -> None:
    """What cannot be compared is not accepted; without a gate it is only said."""
    sides = Side(report(1)), Side(report(1, first=5000))
    assert metric(compare(*sides, GATE), "loss").verdict == "fail"
    assert metric(compare(*sides), "loss").verdict == "no gate"


def test_iterations_of_nemo_are_paired_with_those_of_megatron() -> None:
    """One counts from 0, the other from 1."""
    nemo = report(1, first=0, test_template_name="NeMoRun")
    loss = metric(compare(Side(nemo), Side(report(1, first=1)), GATE), "loss")
    assert (loss.difference, loss.verdict) == (0, "pass")


def test_step_times_of_different_batches_are_compared_per_token_and_rank() -> None:
    """Twice the batch in twice the time is no slowdown; on twice the ranks it is."""
    base = report(1, noise=0, world_size=8)
    twice = report(1, noise=0, slow=2.0, world_size=8, global_batch_size=256)
    found = metric(compare(Side(base), Side(twice), GATE), "step_time_sec")
    assert found.difference == pytest.approx(0) and found.note == "per token and rank: batches or ranks differ"
    wider = report(1, noise=0, slow=2.0, world_size=16, global_batch_size=256)
    assert metric(compare(Side(base), Side(wider), GATE), "step_time_sec").difference == pytest.approx(1.0)


def test_missing_throughput_is_said() -> None:
    """A metric that one report lacks has no difference."""
    new = report(1)
    for one in new.steps:
        one.tflops_per_gpu = None
    found = metric(compare(Side(report(1)), Side(new)), "tflops_per_gpu")
    assert (found.new, found.difference, found.note) == (None, None, "not in both reports")


def test_report_without_a_window_cannot_be_compared() -> None:
    """The error says which of the two."""
    with pytest.raises(ReportError, match="the new report has no step outside start-up"):
        compare(Side(report(1)), Side(report(1, steps=5)))


@pytest.mark.parametrize(
    ("base", "new"),
    [
        ({"fp8_recipe": "delayed"}, {"fp8_recipe": "tensorwise"}),
        ({"moe_router_topk": 2, "moe_grouped_gemm": False}, {}),
        ({"expert_parallel_size": 1, "expert_tensor_parallel_size": 4}, {"expert_tensor_parallel_size": 1}),
        ({"virtual_pipeline_parallel_size": 1, "context_parallel_size": None}, {}),
        ({"profiling_start_step": 10, "profiling_stop_step": 12}, {}),
        ({"normalization": "RMSNorm", "position_embedding_type": "rope"}, {"normalization": "rmsnorm"}),
        (
            {"tensor_parallel_size": 1, "sequence_parallel": True},
            {"tensor_parallel_size": 1, "sequence_parallel": False},
        ),
        ({"test_id": "a", "nodes": ["x"], "system_path": "p", "model_name": "m"}, {}),
    ],
)
def test_settings_without_effect_do_not_differ(base: dict[str, Any], new: dict[str, Any]) -> None:
    """What frameworks fill in differently, though it does nothing."""
    assert differences(TrainingConfig(**{**CONFIG, **base}), TrainingConfig(**{**CONFIG, **new})) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"fp8": "hybrid", "fp8_recipe": "delayed"}, [("fp8", None, "hybrid"), ("fp8_recipe", None, "delayed")]),
        ({"seq_length": 4096}, [("seq_length", 8192, 4096)]),
        ({"env_vars": {"NCCL_DEBUG": "INFO", "NESTED": CONFIG["env_vars"]["NESTED"], "X": "1"}}, None),
    ],
)
def test_settings_with_effect_differ(change: dict[str, Any], expected: Any) -> None:
    """Field by field, variables one by one."""
    expected = expected or [("env_vars.NCCL_DEBUG", "WARN", "INFO"), ("env_vars.X", None, "1")]
    assert differences(TrainingConfig(**CONFIG), TrainingConfig(**{**CONFIG, **change})) == expected


@pytest.mark.parametrize(
    ("text", "value"), [("3%", 0.03), ("0.03", 0.03), ("0", 0.0), ("1e-5", 1e-5), ("0.5 %", 0.005), ("150%", 1.5)]
)
def test_fraction_is_parsed(text: str, value: float) -> None:
    """Percent or plain."""
    assert parse_fraction(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "%", "3 percent", "-1%", "nan", "inf", "inf%", "3", "1"])
def test_what_is_no_fraction_is_refused(text: str) -> None:
    """In one line that shows what one looks like."""
    with pytest.raises(UsageError, match=r"expected a fraction such as 3% or 0\.03"):
        parse_fraction(text)


@pytest.fixture(scope="module")
def slower() -> Comparison:
    return compare(Side(report(1)), Side(report(2, slow=1.2, micro_batch_size=2)), GATE)


def test_json_holds_every_number(slower: Comparison) -> None:
    """Unrounded, with the verdict."""
    document = json.loads(COMPARISON_FORMATS["json"](slower))
    assert document["failed"] is True
    assert document["config"] == [{"field": "micro_batch_size", "base": 1, "new": 2}]
    first = document["metrics"][0]
    assert (first["metric"], first["difference"], first["verdict"]) == (
        "step_time_sec",
        slower.metrics[0].difference,
        "fail",
    )


def test_junit_counts_failures(slower: Comparison) -> None:
    """One case a metric; CI systems show the failed one with its message."""
    suite = ElementTree.fromstring(COMPARISON_FORMATS["junit"](slower))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("5", "1", "1")
    (failure,) = suite.iter("failure")
    assert "95% interval" in failure.get("message", "")


def test_github_annotates_the_failure(slower: Comparison) -> None:
    """One command a line, its reserved characters escaped."""
    lines = COMPARISON_FORMATS["github"](slower).splitlines()
    assert lines[0] == "::notice title=configuration differs::micro_batch_size: 1 -> 2"
    assert lines[1].startswith("::error title=step_time_sec%3A fail::0.") and "%25" in lines[1]
    assert [line.split(" ")[0] for line in lines] == ["::notice", "::error", "::notice", "::notice", "::notice"]


@pytest.mark.parametrize("name", ["text", "markdown"])
def test_tables_put_the_configuration_first(slower: Comparison, name: str) -> None:
    """Then one row a metric."""
    text = COMPARISON_FORMATS[name](slower)
    assert text.index("micro_batch_size") < text.index("step_time_sec") < text.index("tflops_per_gpu")


def sides() -> list[tuple[str, Side]]:
    names = ("b", "a", "c")
    reports = (report(1, slow=2.0, world_size=8), report(2, world_size=8), report(3, steps=3))
    return [(name, Side(one)) for name, one in zip(names, map(with_aggregation, reports), strict=True)]


def with_aggregation(one: TrainingResults) -> TrainingResults:
    from trainwright.report_schema.aggregate import aggregate
    from trainwright.report_schema.window import window_steps

    one.aggregation = aggregate(window_steps(one))
    return one


def test_table_sorts_by_a_column(tmp_path: Path) -> None:
    """Unknown values come last, both ways."""
    rows = [line.split(",")[0] for line in summary_table(sides(), sort_by="s/step", format="csv").splitlines()]
    assert rows == ["run", "a", "b", "c"]
    descending = summary_table(sides(), sort_by="s/step", descending=True, format="csv").splitlines()
    assert [line.split(",")[0] for line in descending] == ["run", "b", "a", "c"]


def test_table_keeps_the_order_given() -> None:
    """Without a column to sort by."""
    assert [line.split("|")[1].strip() for line in summary_table(sides(), format="markdown").splitlines()[2:]] == [
        "b",
        "a",
        "c",
    ]


def test_table_counts_tokens_per_second_and_rank() -> None:
    """Batch times sequence over seconds and ranks."""
    row = summary_table(sides()[1:2], format="csv").splitlines()
    cells = dict(zip(row[0].split(","), row[1].split(","), strict=True))
    aggregation = sides()[1][1].report.aggregation
    assert aggregation is not None
    assert float(cells["tokens/s/rank"]) == pytest.approx(128 * 8192 / aggregation.step_time_sec.mean / 8)
    assert (cells["layout"], cells["warnings"]) == ("tp4", "-")


@pytest.mark.parametrize(
    ("options", "message"), [({"sort_by": "x"}, "no column 'x'"), ({"format": "x"}, "no table format")]
)
def test_unknown_column_or_format_is_refused(options: dict[str, str], message: str) -> None:
    """With what there is."""
    with pytest.raises(UsageError, match=message):
        summary_table([], **options)
