"""Reports of other frameworks' runs, each number checked against a computation of its own."""

import json
from pathlib import Path

import numpy
import pytest
from tests.report_schema.framework_runs import (
    MEGATRON_CASE,
    bridge_run,
    bridge_series,
    golden_series,
    megatron_restart_run,
    nemo_run,
    nemo_series,
)

from trainwright.report_schema import MetricStats, TrainingResults
from trainwright.report_schema.parsers import build_report

METRICS = ("step_time_sec", "loss", "memory_reserved_bytes", "memory_allocated_bytes", "tflops_per_gpu")


def as_stored(value: float, scale: float = 1.0) -> float:
    """What a value is once it went through an event file, which holds 32-bit floats."""
    return float(numpy.float32(value)) * scale


def assert_statistics(stats: MetricStats | None, values: list[float]) -> None:
    """Compare with numpy's idea of the same statistics."""
    assert stats is not None
    array = numpy.array(values)
    expected = [array.mean(), array.min(), array.max(), array.std(), *numpy.percentile(array, [99, 95])]
    got = [stats.mean, stats.min, stats.max, stats.std, stats.t99, stats.t95]
    scale = abs(array).max()
    assert got == pytest.approx(expected, rel=1e-12, abs=1e-12 * scale)


def assert_report(report: TrainingResults, expected: dict[int, dict[str, float]], window: list[int]) -> None:
    """Every number of every step, and every statistic over the window."""
    assert [step.iteration for step in report.steps] == sorted(expected)
    for step in report.steps:
        values = {name: value for name in METRICS if (value := getattr(step, name)) is not None}
        assert values == expected[step.iteration]
    for name in METRICS:
        values = [expected[i][name] for i in window if name in expected[i]]
        assert report.aggregation is not None
        assert_statistics(getattr(report.aggregation, name), values)


def rows(
    series: dict[str, dict[int, float]], tags: dict[str, str], scale: dict[str, float]
) -> dict[int, dict[str, float]]:
    """Iteration -> metric -> value, for iterations that have the four metrics that a step needs."""
    found = {
        i: {name: as_stored(series[tag][i], scale.get(name, 1.0)) for name, tag in tags.items() if i in series[tag]}
        for i in series[tags["loss"]]
    }
    return {i: values for i, values in found.items() if set(METRICS[:4]) <= set(values)}


MEGATRON_TAGS = dict(
    zip(METRICS, ("iteration-time", "lm loss", "mem-reserved-bytes", "mem-allocated-bytes", "throughput"), strict=True)
)


def restart_rows() -> dict[int, dict[str, float]]:
    """The restart case: 1 to 50 of the first process, 51 to 100 of the second."""
    first = rows(golden_series(MEGATRON_CASE / "golden_values_lts_dgx_a100.json", last=50), MEGATRON_TAGS, {})
    second = rows(golden_series(MEGATRON_CASE / "golden_values_lts_dgx_a100_2nd.json", first=51), MEGATRON_TAGS, {})
    return first | second


def test_megatron_restart_by_default(tmp_path: Path) -> None:
    """The restart's warm-up is in the statistics, as the schema has it, and the report warns of it."""
    report, diagnostics = build_report(megatron_restart_run(tmp_path / "t.dense" / "0"), settings=["num_nodes=1"])
    expected = restart_rows()
    assert len(expected) == 99  # Megatron-LM logs no time for a process's first iteration; the second logged it.
    assert_report(report, expected, sorted(expected)[5:])
    assert report.aggregation is not None
    assert report.aggregation.step_time_sec.mean == pytest.approx(0.3375, abs=5e-5)
    assert [(one.reason, one.iterations) for one in diagnostics.left_out] == [
        ("incomplete", [[1, 1]]),
        ("rolled-back", [[51, 60]]),
    ]
    (warning,) = [warning for warning in diagnostics.warnings if "warm-up" in warning]
    assert "restart at iteration 51" in warning and "3.744 s" in warning


def test_megatron_restart_without_its_warm_up(tmp_path: Path) -> None:
    """Excluding five steps after the restart gives the rate of the training itself."""
    run = megatron_restart_run(tmp_path / "t.dense" / "0")
    report, diagnostics = build_report(run, settings=["num_nodes=1"], exclude_after_restart=5)
    expected = restart_rows()
    window = [i for i in sorted(expected)[5:] if i not in range(51, 56)]
    assert_report(report, expected, window)
    assert report.aggregation is not None
    assert report.aggregation.step_time_sec.mean == pytest.approx(0.3004, abs=5e-5)
    assert not any("warm-up" in warning for warning in diagnostics.warnings)


def test_megatron_configuration_comes_from_the_logged_arguments(tmp_path: Path) -> None:
    """Texts become typed values; query groups of plain attention are its heads, whatever the argument's default."""
    report, diagnostics = build_report(megatron_restart_run(tmp_path / "t.dense" / "0"), settings=["gpus_per_node=8"])
    config = report.config
    assert (config.world_size, config.num_nodes, config.data_parallel_size) == (8, 1, 2)
    assert (config.tensor_parallel_size, config.sequence_parallel, config.seq_length) == (4, False, 1024)
    assert (config.num_attention_heads, config.num_query_groups, config.num_experts) == (8, 8, None)
    assert (config.test_id, config.test_template_name, diagnostics.workload) == (
        "t.dense",
        "MegatronRun",
        "megatron-run",
    )
    assert config.profiling_enabled is False and config.profiling_start_step is None


BRIDGE_TAGS = dict(zip(METRICS, ("iteration-time", "lm loss"), strict=False)) | {
    "memory_reserved_bytes": "memory/mem-reserved-gigabytes",
    "memory_allocated_bytes": "memory/mem-allocated-gigabytes",
    "tflops_per_gpu": "throughput/tflops/device",
}
BRIDGE_SCALE = {"memory_reserved_bytes": 1e9, "memory_allocated_bytes": 1e9}
ON_16_GPUS = ["num_nodes=2", "gpus_per_node=8"]


@pytest.mark.parametrize("config", ["qwen3_30b_a3b_16gpu_bf16_flat", "llama3_8b_16gpu_bf16_nested"])
def test_bridge_steps_and_statistics(tmp_path: Path, config: str) -> None:
    """Memory is in bytes of 10^9 to the gigabyte; both shapes of the configuration give a report."""
    report, _ = build_report(bridge_run(tmp_path, config), settings=ON_16_GPUS)
    expected = rows(bridge_series(), BRIDGE_TAGS, BRIDGE_SCALE)
    assert len(expected) == 50
    assert_report(report, expected, sorted(expected)[5:])


def test_bridge_flat_configuration(tmp_path: Path) -> None:
    """A mixture of experts whose fields stand directly under model."""
    config = build_report(bridge_run(tmp_path, "qwen3_30b_a3b_16gpu_bf16_flat"), settings=ON_16_GPUS)[0].config
    assert (config.tensor_parallel_size, config.pipeline_parallel_size, config.expert_parallel_size) == (1, 1, 16)
    assert (config.data_parallel_size, config.num_experts, config.moe_router_topk) == (16, 128, 8)
    assert (config.num_layers, config.moe_ffn_hidden_size, config.moe_grouped_gemm) == (48, 768, True)
    assert (config.fp8, config.global_batch_size, config.test_template_name) == (None, 1024, "MegatronBridge")


def test_bridge_nested_configuration(tmp_path: Path) -> None:
    """A dense model whose fields stand under model.transformer, where the older reader finds none."""
    config = build_report(bridge_run(tmp_path, "llama3_8b_16gpu_bf16_nested"), settings=ON_16_GPUS)[0].config
    assert (config.tensor_parallel_size, config.pipeline_parallel_size, config.context_parallel_size) == (4, 2, 2)
    assert (config.data_parallel_size, config.num_layers, config.num_query_groups) == (1, 32, 8)
    assert (config.seq_length, config.position_embedding_type) == (16384, "rope")


def test_bridge_fp8_and_virtual_pipeline(tmp_path: Path) -> None:
    """FP8 comes from the mixed-precision section."""
    run = bridge_run(tmp_path, "llama3_70b_32gpu_fp8cs_vp5_nested")
    config = build_report(run, settings=["num_nodes=4", "gpus_per_node=8"])[0].config
    assert (config.fp8, config.fp8_recipe, config.virtual_pipeline_parallel_size) == ("hybrid", "tensorwise", 5)


def test_bridge_mixed_precision_by_name_is_no_obstacle(tmp_path: Path) -> None:
    """A preset that was not resolved yet leaves FP8 to the model's own field."""
    run = bridge_run(tmp_path, "qwen3_30b_a3b_unresolved_mixed_precision_flat")
    config = build_report(run, settings=ON_16_GPUS)[0].config
    assert config.fp8 is None and config.num_layers == 48


def test_bridge_attempts_are_not_mixed(tmp_path: Path) -> None:
    """Configuration and events are those of the newest attempt, whatever the names sort like; the other is named."""
    bridge_run(tmp_path, "qwen3_30b_a3b_16gpu_bf16_flat", attempt="a_1", time="1780000000")
    bridge_run(tmp_path, "llama3_8b_16gpu_bf16_nested", attempt="z_1", time="1770000000")
    report, diagnostics = build_report(tmp_path, settings=ON_16_GPUS)
    assert report.config.num_layers == 48
    assert {source.path.split("/")[1] for source in diagnostics.sources} == {"a_1"}
    assert any("experiments/z_1" in warning for warning in diagnostics.warnings)


def test_bridge_attempt_without_events_does_not_count(tmp_path: Path) -> None:
    """A later attempt that died before its first step lends no configuration to an earlier one's events."""
    bridge_run(tmp_path, "qwen3_30b_a3b_16gpu_bf16_flat", attempt="a_1")
    late = tmp_path / "experiments" / "b_2" / "b_2" / "x" / "configs"
    late.mkdir(parents=True)
    (late / "ConfigContainer.yaml").write_text("_target_: megatron.bridge.training.config.ConfigContainer\n")
    report, _ = build_report(tmp_path, settings=ON_16_GPUS)
    assert report.config.num_layers == 48


NEMO_TAGS = dict(
    zip(
        METRICS,
        (
            "train_step_timing in s",
            "reduced_train_loss",
            "max_memory_reserved",
            "max_memory_allocated",
            "TFLOPS_per_GPU",
        ),
        strict=True,
    )
)


def test_nemo_steps_and_statistics(tmp_path: Path) -> None:
    """Iterations count from 0; a step without throughput is a step, and not in the throughput's statistics."""
    report, _ = build_report(nemo_run(tmp_path / "t.nemo" / "0"), settings=["num_nodes=1", "gpus_per_node=8"])
    expected = rows(nemo_series(), NEMO_TAGS, {})
    assert min(expected) == 0 and any("tflops_per_gpu" not in values for values in expected.values())
    assert_report(report, expected, sorted(expected)[5:])


def test_nemo_configuration(tmp_path: Path) -> None:
    """Parallel sizes come from their own section; the model's fill the one that is null there."""
    config = build_report(nemo_run(tmp_path / "t.nemo" / "0"), settings=["num_nodes=1", "gpus_per_node=8"])[0].config
    assert (config.tensor_parallel_size, config.sequence_parallel, config.data_parallel_size) == (4, True, 2)
    assert (config.expert_tensor_parallel_size, config.fp8, config.fp8_recipe) == (4, "hybrid", "delayed")
    assert (config.num_layers, config.seq_length, config.global_batch_size) == (32, 8192, 128)


@pytest.mark.parametrize(
    "names",
    [
        ("peak_memory_usage", "memory_allocated", "train_step_timing in s"),  # NeMo up to 2.3
        ("max_memory_reserved", "max_memory_allocated", "train_step_timing_in_s"),  # as tensorboardX cleans tags
    ],
)
def test_nemo_reads_the_tags_of_other_releases(tmp_path: Path, names: tuple[str, str, str]) -> None:
    """Older names and cleaned names give the same steps."""
    series = nemo_series()
    for new, old in zip(names, ("max_memory_reserved", "max_memory_allocated", "train_step_timing in s"), strict=True):
        series[new] = series.pop(old)
    report, _ = build_report(nemo_run(tmp_path / "run", series), settings=["num_nodes=1"])
    assert len(report.steps) == len(rows(nemo_series(), NEMO_TAGS, {}))


def test_sparse_times_are_counted_once(tmp_path: Path) -> None:
    """Where times are logged every hundredth iteration the others are one line, not hundreds."""
    from tests.report_schema.framework_runs import DATA, megatron_arguments, megatron_points
    from tests.report_schema.report_events import write_events

    series = golden_series(DATA / "megatron_lm" / "bert_release_sm" / "golden_values_dev_dgx_h100.json")
    write_events(tmp_path / "tensorboard", megatron_points(series, megatron_arguments(), 0))
    report, diagnostics = build_report(tmp_path, settings=["num_nodes=1"])
    assert len(report.steps) == 20
    (line,) = [warning for warning in diagnostics.warnings if "step_time_sec was not logged" in warning]
    assert line.startswith("381 iterations (1, 5, 10, 15, 20, ...)")


def test_nemo_configuration_may_hold_infinity(tmp_path: Path) -> None:
    """NeMo's dump is not strict JSON; what the report needs of it is."""
    run = nemo_run(tmp_path / "run")
    path = run / "nemo_config.json"
    document = json.loads(path.read_text())
    document["model"]["some_limit"] = float("inf")
    path.write_text(json.dumps(document))
    assert build_report(run, settings=["num_nodes=1"])[0].config.num_layers == 32
