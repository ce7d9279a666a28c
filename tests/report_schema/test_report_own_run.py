"""Building the report of one of our own runs."""

import json
import math
import statistics
from pathlib import Path

import pytest
import yaml
from tests.report_schema.own_runs import CONTAINER, ENVIRONMENT, make_run, points

from trainwright.report_schema import ReportError, UsageError, read_diagnostics, read_report
from trainwright.report_schema.parsers import build_report, write_run_report


def test_written_report_reads_back_equal(tmp_path: Path) -> None:
    """What is returned is what stands in the file, and the diagnostics stand beside it."""
    run = make_run(tmp_path / "run")
    report = write_run_report(run)
    assert read_report(run / "training_report.json") == report
    diagnostics = read_diagnostics(run / "training_report.diagnostics.json")
    assert diagnostics.workload == "trainwright"
    assert (diagnostics.canonical, diagnostics.canonical_differences) == (
        False,
        ["world size: 1 -> 4", "rng.seed: 1234 -> 7 (override)"],
    )


def test_steps_hold_what_was_logged(tmp_path: Path) -> None:
    """Every iteration is a step; memory is in bytes."""
    report, _ = build_report(make_run(tmp_path / "run"))
    assert [step.iteration for step in report.steps] == list(range(1, 41))
    step = report.steps[9]
    assert step.loss == pytest.approx(1 + 5 * math.exp(-0.5), rel=1e-6)
    assert (step.memory_reserved_bytes, step.memory_allocated_bytes) == (750_000_000, 500_000_000)
    assert step.tflops_per_gpu == pytest.approx(0.02)


def test_statistics_are_over_the_window(tmp_path: Path) -> None:
    """The first five steps are left out, and the numbers are those of the statistics module."""
    report, diagnostics = build_report(make_run(tmp_path / "run"))
    times = [step.step_time_sec for step in report.steps[5:]]
    assert report.aggregation is not None
    stats = report.aggregation.step_time_sec
    assert stats.mean == pytest.approx(statistics.mean(times), rel=1e-13)
    assert stats.std == pytest.approx(statistics.pstdev(times), rel=1e-12)
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    assert (stats.t95, stats.t99) == pytest.approx((cuts[94], cuts[98]), rel=1e-12)
    assert (stats.min, stats.max) == (min(times), max(times))
    assert (diagnostics.window.first_iteration, diagnostics.window.steps) == (6, 35)


@pytest.mark.parametrize(("packed", "tokens"), [(True, 1024), (False, 256)])
def test_a_row_packed_beforehand_is_what_a_step_takes(tmp_path: Path, packed: bool, tokens: int) -> None:
    """Its size, where packing is on, is the sequence length that goes with the batch size."""
    specs = {"packed_sequence_size": 1024}
    dataset = {"seq_length": 256, "enable_offline_packing": packed, "offline_packing_specs": specs}
    run = make_run(tmp_path / "run", container={"dataset": dataset})
    assert build_report(run)[0].config.seq_length == tokens


def test_configuration_comes_from_the_container_and_the_environment(tmp_path: Path) -> None:
    """Fields without a source are empty, null sizes follow Megatron Core's rules, secrets are redacted."""
    config = build_report(make_run(tmp_path / "run"))[0].config
    assert (config.test_id, config.test_name, config.test_template_name) == (
        "vanilla-1",
        "vanilla_gpt_pretrain_config",
        "Trainwright",
    )
    assert (config.system_path, config.test_scenario_name, config.cloudai_execution_node) == ("", "", "laptop")
    assert (config.world_size, config.data_parallel_size, config.gpus_per_node) == (4, 2, None)
    assert (config.num_query_groups, config.kv_channels, config.ffn_hidden_size) == (4, 32, 512)
    assert (config.expert_tensor_parallel_size, config.num_experts, config.moe_router_topk) == (2, None, None)
    assert config.env_vars == {"HF_TOKEN": "<redacted>", "OMP_NUM_THREADS": "1"}


def test_gpus_are_counted_on_cuda(tmp_path: Path) -> None:
    """Ranks of a machine are GPUs only where the device is CUDA."""
    run = make_run(
        tmp_path / "run",
        environment={
            "device": {"kind": "cuda"},
            "topology": {"world_size": 4, "num_nodes": 2, "ranks_per_node": 2},
        },
    )
    config = build_report(run)[0].config
    assert (config.gpus_per_node, config.nodes) == (2, [])


def test_restart_takes_back_what_it_trains_again(tmp_path: Path) -> None:
    """A second session that starts at 21 replaces 21 to 30 of the first, also where it stops earlier."""
    run = make_run(tmp_path / "run", points(range(1, 31)), points(range(21, 26), speed=2))
    report, diagnostics = build_report(run)
    assert [step.iteration for step in report.steps] == list(range(1, 26))
    assert report.steps[20].step_time_sec < 0.3
    (left_out,) = diagnostics.left_out
    assert (left_out.reason, left_out.iterations) == ("rolled-back", [[21, 30]])
    assert [segment.steps for segment in diagnostics.segments] == [20, 5]
    assert any("warm-up after the restart at iteration 21" in warning for warning in diagnostics.warnings)


def test_warm_up_after_a_restart_can_be_excluded(tmp_path: Path) -> None:
    """The first steps of the later session leave the window, the warning goes too."""
    run = make_run(tmp_path / "run", points(range(1, 31)), points(range(21, 41)))
    _, diagnostics = build_report(run, exclude_after_restart=5)
    assert [(one.reason, one.iterations) for one in diagnostics.window.excluded] == [
        ("start", [[1, 5]]),
        ("restart", [[21, 25]]),
    ]
    assert not any("warm-up" in warning for warning in diagnostics.warnings)


def test_diverged_run_gets_its_report(tmp_path: Path) -> None:
    """Steps with a number that is not finite are left out, counted and named."""
    run = make_run(tmp_path / "run", points(range(1, 21), losses={8: math.nan, 19: math.inf, 20: -math.inf}))
    report = write_run_report(run)
    assert [step.iteration for step in report.steps] == [i for i in range(1, 21) if i not in (8, 19, 20)]
    diagnostics = read_diagnostics(run / "training_report.diagnostics.json")
    (left_out,) = diagnostics.left_out
    assert (left_out.reason, left_out.metric, left_out.count) == ("non-finite", "loss", 3)
    assert left_out.iterations == [[8, 8], [19, 20]]
    assert diagnostics.warnings == ["3 iterations (8, 19-20) are not in the report: loss is not finite"]


def test_iteration_without_a_metric_is_counted(tmp_path: Path) -> None:
    """An iteration that lacks its time is no step; one line says so."""
    logged = [point for point in points(range(1, 21)) if point[:2] not in [("iteration-time", i) for i in (1, 12)]]
    report, diagnostics = build_report(make_run(tmp_path / "run", logged))
    assert len(report.steps) == 18
    assert diagnostics.warnings == ["2 iterations (1, 12) are not in the report: step_time_sec was not logged"]


def test_throughput_is_optional(tmp_path: Path) -> None:
    """Without it the steps stay, and its statistics are null."""
    logged = [point for point in points(range(1, 21)) if point[0] != "throughput/tflops/device"]
    report, _ = build_report(make_run(tmp_path / "run", logged))
    assert report.steps[0].tflops_per_gpu is None
    assert report.aggregation is not None and report.aggregation.tflops_per_gpu is None


def test_short_run_has_no_aggregation(tmp_path: Path) -> None:
    """Where every step is start-up, the aggregation is null, and that is said."""
    report, diagnostics = build_report(make_run(tmp_path / "run", points(range(1, 5))))
    assert report.aggregation is None and len(report.steps) == 4
    assert "no step is left to aggregate" in diagnostics.warnings[0]


def test_profiled_steps_are_excluded(tmp_path: Path) -> None:
    """A profiler's window and two steps behind it leave the aggregation."""
    profiling = {"use_pytorch_profiler": True, "profile_step_start": 10, "profile_step_end": 12}
    report, diagnostics = build_report(make_run(tmp_path / "run", container={"profiling": profiling}))
    assert report.config.profiling_enabled
    assert diagnostics.window.excluded[1].iterations == [[10, 14]]


def of_world_size(size):
    return {**ENVIRONMENT, "topology": {**ENVIRONMENT["topology"], "world_size": size}}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda run: (run / "environment.json").write_text("{"), "environment.json: not JSON at line 1, column 2"),
        (
            lambda run: (run / "environment.json").write_text(json.dumps(of_world_size("4"))),
            "environment.json: topology.world_size: input should be a valid integer, got '4'",
        ),
        (
            lambda run: (run / "environment.json").write_text(json.dumps(of_world_size(3))),
            "world size 3 is not a multiple of 2 (tensor 2 x pipeline 1 x context 1 parallel size)",
        ),
        (lambda run: (run / "environment.json").unlink(), "environment.json: No such file or directory"),
        (lambda run: (run / "configs/ConfigContainer.yaml").write_text("a: [1"), "ConfigContainer.yaml: not YAML"),
        (lambda run: (run / "configs/ConfigContainer.yaml").write_text("- 1"), "expected a mapping, got list"),
        (
            lambda run: (run / "configs/ConfigContainer.yaml").write_text(json.dumps({"model": CONTAINER["model"]})),
            "micro_batch_size: no source among the run's files; --set micro_batch_size=VALUE gives it",
        ),
        (
            lambda run: (run / "configs/ConfigContainer.yaml").write_text(
                json.dumps({**CONTAINER, "train": {"micro_batch_size": "2", "global_batch_size": 8}})
            ),
            "configs/ConfigContainer.yaml: train.micro_batch_size: micro_batch_size: input should be a valid integer",
        ),
        (lambda run: [path.unlink() for path in (run / "tb_logs").iterdir()], "tb_logs: no TensorBoard event files"),
        (
            lambda run: [path.write_bytes(b"garbage" * 9) for path in (run / "tb_logs").iterdir()],
            "tb_logs: no metric in 1 event file; 63 bytes could not be read",
        ),
    ],
)
def test_bad_evidence_is_one_line(tmp_path: Path, spoil, message: str) -> None:
    """Each spoilt file gives one line that names it; nothing is written."""
    run = make_run(tmp_path / "run")
    spoil(run)
    with pytest.raises(ReportError) as caught:
        write_run_report(run)
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.exit_code == 1
    assert not list(run.glob("training_report*"))


def test_damaged_event_file_is_named(tmp_path: Path) -> None:
    """A torn tail costs the iteration that it cuts; the report says how many bytes were not read."""
    run = make_run(tmp_path / "run")
    (events,) = (run / "tb_logs").iterdir()
    size = events.stat().st_size
    events.write_bytes(events.read_bytes()[:-100])
    report, diagnostics = build_report(run)
    (unread,) = diagnostics.unread
    assert len(report.steps) == 39 and unread.offset + unread.size_bytes == size - 100
    assert (
        f"{unread.size_bytes} bytes could not be read: truncated record at byte {unread.offset}"
        in (diagnostics.warnings[0])
    )


def test_files_that_seem_out_of_order_are_named(tmp_path: Path) -> None:
    """Where the clock of a resumed session is behind, its file seems older, and its steps are lost: say so."""
    run = make_run(tmp_path / "run", points(range(21, 31)), points(range(1, 25)))
    _, diagnostics = build_report(run)
    assert any("if the hosts' clocks differ, rename it" in warning for warning in diagnostics.warnings)


def test_value_logged_twice_is_counted(tmp_path: Path) -> None:
    """The later one stands in the report."""
    logged = [*points(range(1, 21)), ("lm loss", 20, 9.0)]
    report, diagnostics = build_report(make_run(tmp_path / "run", logged))
    assert (report.steps[-1].loss, diagnostics.repeated_points) == (9.0, 1)
    assert diagnostics.warnings == ["1 value logged again for the same metric and iteration: the last one counts"]


def test_missing_directory_is_a_usage_error(tmp_path: Path) -> None:
    """A path that is no directory is the caller's mistake."""
    with pytest.raises(UsageError, match="no such directory"):
        build_report(tmp_path / "nowhere")


def test_events_that_were_sent_elsewhere_are_found_there(tmp_path: Path) -> None:
    """`logger.tensorboard_dir` of the run names the place."""
    run = make_run(tmp_path / "run")
    (run / "tb_logs").rename(tmp_path / "elsewhere")
    config = run / "configs" / "ConfigContainer.yaml"
    container = yaml.safe_load(config.read_text())
    container["logger"] = {**container.get("logger", {}), "tensorboard_dir": str(tmp_path / "elsewhere")}
    config.write_text(yaml.safe_dump(container))
    report, _ = build_report(run)
    assert report.steps
