"""What CloudAI's files, Slurm and the command line say about a run."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.report_schema.framework_runs import (
    bridge_run,
    megatron_arguments,
    megatron_points,
    megatron_restart_run,
    nemo_run,
)
from tests.report_schema.own_runs import make_run
from tests.report_schema.report_events import write_events

from trainwright.report_schema import ReportError, TrainingConfig, UsageError
from trainwright.report_schema.parsers import build_report
from trainwright.report_schema.parsers.field_text import parse_setting
from trainwright.report_schema.parsers.hostlist import expand_hosts
from trainwright.report_schema.parsers.redaction import REDACTED, redact

TEST_RUN = """
name = "llama.nightly"
nnodes = 2
nodes = ["n[01-02]"]

[test_definition]
name = "llama_8b"
description = "Llama 3 8B on two nodes"
test_template_name = "NeMoRun"

[test_definition.cmd_args]
docker_image_url = "registry/nemo:25.04"
recipe_name = "llama3_8b"

[test_definition.extra_env_vars]
NCCL_DEBUG = "INFO"
HF_TOKEN = "hf_secret"
CLIQUE_SIZE = "16"

[test_definition.extra_cmd_args]
"optim.warmup_start_step" = 3
"trainer.callbacks[2].start_step" = 10
"trainer.callbacks[2].end_step" = "12"

[test_definition.nsys]
enable = true

[test_definition.training_report]
exclude_start_steps = 3
"""
SYSTEM = """
name = "cluster"
gpus_per_node = 4
[global_env_vars]
NCCL_DEBUG = "WARN"
NCCL_IB = "mlx5"
"""
SCENARIO = """
name = "nightly"
[[Tests]]
id = "other"
test_name = "mixtral"
[[Tests]]
id = "llama.nightly"
test_name = "llama_8b"
num_nodes = 8
nodes = ["n[01-08]"]
"""
TEST = """
name = "llama_8b"
description = "as the test directory has it"
test_template_name = "NeMoRun"
[cmd_args]
docker_image_url = "registry/nemo:25.07"
recipe_name = "llama3_8b"
"""


@pytest.fixture(autouse=True)
def outside_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests say themselves what Slurm's environment is."""
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)


def write(directory: Path, **texts: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (directory / name.replace("_dot_", ".").replace("__", "-")).write_text(text)


def nemo_config(run: Path, **options: Any) -> TrainingConfig:
    return build_report(run, **options)[0].config


def test_recorded_test_run_fills_the_report(tmp_path: Path) -> None:
    """test-run.toml and the system file give what the framework does not know."""
    run = nemo_run(tmp_path / "nightly_2026-11-30_09-00-00" / "llama.nightly" / "0")
    write(run, test__run_dot_toml=TEST_RUN)
    write(tmp_path, system_dot_toml=SYSTEM)
    config = nemo_config(run, system=tmp_path / "system.toml")
    assert (config.test_id, config.test_name, config.test_scenario_name) == ("llama.nightly", "llama_8b", "nightly")
    assert (config.description, config.test_template_name) == ("Llama 3 8B on two nodes", "NeMoRun")
    assert (config.container_image, config.model_name) == ("registry/nemo:25.04", "llama3_8b")
    assert (config.system_path, config.tests_dir_path) == (str(tmp_path / "system.toml"), "")
    assert (config.num_nodes, config.gpus_per_node, config.world_size, config.data_parallel_size) == (2, 4, 8, 2)
    assert (config.nodes, config.clique_size) == (["n01", "n02"], 16)
    assert config.env_vars == {"NCCL_DEBUG": "INFO", "NCCL_IB": "mlx5", "HF_TOKEN": REDACTED, "CLIQUE_SIZE": "16"}
    assert (config.exclude_start_steps, config.exclude_post_profiling_steps) == (3, 2)
    assert config.cloudai_execution_node == socket.gethostname()


def test_profiler_settings_are_the_callbacks_own(tmp_path: Path) -> None:
    """A key that merely ends alike does not count; numbers may be written as text."""
    run = nemo_run(tmp_path / "run")
    write(run, test__run_dot_toml=TEST_RUN)
    report, diagnostics = build_report(run)
    config = report.config
    assert (config.profiling_enabled, config.profiling_start_step, config.profiling_stop_step) == (True, 10, 12)
    assert diagnostics.window.excluded[1].iterations == [[10, 14]]


def test_slurm_job_knows_the_nodes_best(tmp_path: Path) -> None:
    """What Slurm reported comes before what was asked for."""
    run = nemo_run(tmp_path / "run")
    write(run, test__run_dot_toml=TEST_RUN, slurm__job_dot_toml='nodes = ["n05", "n07", "n09"]\n')
    config = nemo_config(run)
    assert (config.nodes, config.num_nodes) == (["n05", "n07", "n09"], 3)


def test_described_nodes_come_second(tmp_path: Path) -> None:
    """Older releases name the nodes only in the files that describe them."""
    run = nemo_run(tmp_path / "run")
    write(run, test__run_dot_toml=TEST_RUN)
    write(run / "metadata", **{"node__n03_dot_toml": "", "node__n04_dot_toml": "", "node__n06_dot_toml": ""})
    config = nemo_config(run)
    assert (config.nodes, config.num_nodes) == (["n03", "n04", "n06"], 3)


def test_scenario_and_test_directory_stand_in_for_the_record(tmp_path: Path) -> None:
    """The scenario's entry, found by the run's directory, names the test; its own settings come first."""
    run = nemo_run(tmp_path / "results" / "llama.nightly" / "0")
    write(tmp_path, scenario_dot_toml=SCENARIO)
    write(tmp_path / "tests" / "deep", llama_dot_toml=TEST, other_dot_toml='name = "x"')
    report, diagnostics = build_report(run, tests_dir=tmp_path / "tests", scenario=tmp_path / "scenario.toml")
    config = report.config
    assert (config.test_id, config.test_name, config.test_scenario_name) == ("llama.nightly", "llama_8b", "nightly")
    assert (config.description, config.num_nodes, config.nodes[-1]) == ("as the test directory has it", 8, "n08")
    assert (config.tests_dir_path, config.test_scenario_path) == (
        str(tmp_path / "tests"),
        str(tmp_path / "scenario.toml"),
    )
    assert diagnostics.config_sources["description"].endswith("llama.toml: description")


def test_slurm_environment_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that the job itself builds needs no option."""
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "gpu[3-4]")
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "8")
    report, diagnostics = build_report(nemo_run(tmp_path / "run"))
    config = report.config
    assert (config.num_nodes, config.nodes, config.gpus_per_node, config.world_size) == (2, ["gpu3", "gpu4"], 8, 16)
    assert diagnostics.config_sources["num_nodes"] == "environment: SLURM_JOB_NUM_NODES"


def test_setting_comes_before_every_file(tmp_path: Path) -> None:
    """--set has the last word, in the field's own type."""
    run = nemo_run(tmp_path / "run")
    write(run, test__run_dot_toml=TEST_RUN)
    settings = ["num_nodes=4", "description=42", "fp8=None", 'nodes=["a"]', "moe_grouped_gemm=true"]
    config = nemo_config(run, settings=settings)
    assert (config.num_nodes, config.description, config.fp8, config.nodes) == (4, "42", None, ["a"])
    assert config.moe_grouped_gemm is True


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("num_nodes", "'num_nodes': expected FIELD=VALUE"),
        ("num_node=1", "'num_node' is no configuration field; did you mean 'num_nodes'?"),
        ("num_nodes=two", "num_nodes: input should be a valid integer, got 'two'"),
        ("num_nodes=1.5", "num_nodes: input should be a valid integer, got '1.5'"),
        ("num_nodes=0x10", "num_nodes: input should be a valid integer, got '0x10'"),
        ("num_nodes=1_000", "num_nodes: input should be a valid integer, got '1_000'"),
        ("sequence_parallel=1", "sequence_parallel: input should be a valid boolean, got '1'"),
        ("nodes=a,b", "nodes: input should be a valid list, got 'a,b'"),
    ],
)
def test_setting_of_the_wrong_form_is_refused(setting: str, message: str) -> None:
    """One line; nothing is guessed from other notations."""
    with pytest.raises(UsageError) as caught:
        parse_setting(setting)
    assert str(caught.value) == message


def test_unknown_names_are_left_empty_and_said(tmp_path: Path) -> None:
    """A bare run directory gives a report, and one line on what nobody told."""
    report, diagnostics = build_report(nemo_run(tmp_path / "t.nemo" / "0"), settings=["num_nodes=1"])
    assert (report.config.test_id, report.config.test_name, report.config.description) == ("t.nemo", "", "")
    assert "no source for test_name, description, test_scenario_name" in diagnostics.warnings[0]


def test_unknown_number_is_refused(tmp_path: Path) -> None:
    """A count of nodes is never made up."""
    with pytest.raises(ReportError, match="num_nodes: no source among the run's files; --set num_nodes=VALUE gives it"):
        build_report(nemo_run(tmp_path / "run"))


def test_bad_clique_size_is_said(tmp_path: Path) -> None:
    """It becomes null, with a line."""
    run = nemo_run(tmp_path / "run")
    write(run, test__run_dot_toml=TEST_RUN.replace('"16"', '"sixteen"'))
    report, diagnostics = build_report(run)
    assert report.config.clique_size is None
    assert any("CLIQUE_SIZE is 'sixteen', not a number" in warning for warning in diagnostics.warnings)


def test_job_script_variables_stand_in_for_the_system_file(tmp_path: Path) -> None:
    """env_vars.sh is what the job really set; it is read where the system file is not given."""
    run = nemo_run(tmp_path / "run")
    write(run, test__run_dot_toml=TEST_RUN, env_vars_dot_sh="export NCCL_IB=\"a b\"\nexport X='1'\nexport Y=2\n")
    variables = nemo_config(run).env_vars
    assert (variables["NCCL_IB"], variables["X"], variables["Y"], variables["NCCL_DEBUG"]) == ("a b", "1", "2", "INFO")


def test_world_size_that_contradicts_the_nodes_is_said(tmp_path: Path) -> None:
    """The run's own number stays."""
    run = megatron_restart_run(tmp_path / "run")
    report, diagnostics = build_report(run, settings=["num_nodes=2", "gpus_per_node=8"])
    assert report.config.world_size == 8
    assert "the run had 8 ranks, but 2 x 8 GPUs are 16" in diagnostics.warnings


@pytest.mark.parametrize(
    ("arguments", "test", "window"),
    [
        ({"profile": True, "profile_step_start": 20, "profile_step_end": 22}, "", [[20, 24]]),
        ({}, "[test_definition.nsys]\nenable = true", [[10, 14]]),  # Megatron-LM's own default steps
        (
            {},
            "[test_definition.nsys]\nenable = true\n"
            "[test_definition.cmd_args]\nprofile_step_start = 30\nprofile_step_end = 31",
            [[30, 33]],
        ),
        ({}, "", None),
    ],
)
def test_megatron_profiler_steps(tmp_path: Path, arguments: Any, test: str, window: Any) -> None:
    """Logged arguments come first; the program's defaults count where only the test says that it profiled."""
    from tests.report_schema.framework_runs import MEGATRON_CASE, golden_series

    series = golden_series(MEGATRON_CASE / "golden_values_lts_dgx_a100.json")
    write_events(tmp_path / "tensorboard", megatron_points(series, megatron_arguments(**arguments), 0))
    write(tmp_path, test__run_dot_toml=f'name = "t"\nnnodes = 1\n[test_definition]\nname = "t"\n{test}\n')
    _, diagnostics = build_report(tmp_path)
    assert next((one.iterations for one in diagnostics.window.excluded if one.reason == "profiling"), None) == window


def test_changed_configuration_of_a_restart_is_said(tmp_path: Path) -> None:
    """The report has the last segment's; the difference is one line."""
    from tests.report_schema.framework_runs import MEGATRON_CASE, golden_series

    files = ("golden_values_lts_dgx_a100.json", "golden_values_lts_dgx_a100_2nd.json")
    for index, (name, batch) in enumerate(zip(files, (32, 64), strict=True)):
        series = golden_series(MEGATRON_CASE / name, first=51 * index)
        points = megatron_points(series, megatron_arguments(global_batch_size=batch), 50 * index)
        write_events(tmp_path / "tensorboard", points, name=str(1780000000 + index))
    report, diagnostics = build_report(tmp_path, settings=["num_nodes=1"])
    assert report.config.global_batch_size == 64
    assert any("global_batch_size was 32, the report says 64" in warning for warning in diagnostics.warnings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"system": Path("nowhere.toml")}, "nowhere.toml: no such file or directory"),
        ({"workload": "nemo"}, "no workload 'nemo': one of auto, trainwright, nemo-run"),
        ({"exclude_after_restart": -1}, "must be at least 0, got -1"),
    ],
)
def test_bad_option_is_a_usage_error(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    """Before anything is read."""
    with pytest.raises(UsageError) as caught:
        build_report(nemo_run(tmp_path / "run"), **options)
    assert message in str(caught.value) and caught.value.exit_code == 2


def test_scenario_without_the_test_names_its_tests(tmp_path: Path) -> None:
    """The run's directory says which test it was."""
    write(tmp_path, scenario_dot_toml=SCENARIO)
    with pytest.raises(UsageError, match=r"no test 'run'; its tests are other, llama\.nightly"):
        build_report(nemo_run(tmp_path / "run"), scenario=tmp_path / "scenario.toml")


def test_broken_toml_is_one_line(tmp_path: Path) -> None:
    """With the place."""
    run = nemo_run(tmp_path / "run")
    write(run, test__run_dot_toml="name = \n")
    with pytest.raises(ReportError, match=r"test-run\.toml: not TOML: .*line 1, column 8"):
        build_report(run)


def test_directory_that_looks_like_two_workloads_must_be_told(tmp_path: Path) -> None:
    """It is not guessed; what was recorded of the test decides, or --workload."""
    run = nemo_run(bridge_run(tmp_path / "run", "qwen3_30b_a3b_16gpu_bf16_flat"))
    with pytest.raises(UsageError, match=r"several workloads: nemo-run .*, megatron-bridge .*--workload"):
        build_report(run, settings=["num_nodes=2", "gpus_per_node=8"])
    settings = ["num_nodes=2", "gpus_per_node=8"]
    assert build_report(run, workload="megatron-bridge", settings=settings)[1].workload == "megatron-bridge"
    write(run, test__run_dot_toml=TEST_RUN)
    assert build_report(run, settings=settings)[1].workload == "nemo-run"


def test_directory_that_looks_like_none_says_what_was_looked_for(tmp_path: Path) -> None:
    """All four signs."""
    with pytest.raises(ReportError, match=r"no run is recognised .*nemo_config\.json.*tensorboard/\*tfevents"):
        build_report(tmp_path)


def test_cloudai_files_say_nothing_about_an_own_run(tmp_path: Path) -> None:
    """An option without effect is refused."""
    write(tmp_path, system_dot_toml=SYSTEM)
    with pytest.raises(UsageError, match="--system, --tests-dir and --scenario say nothing about an own run"):
        build_report(make_run(tmp_path / "run"), system=tmp_path / "system.toml")


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "WANDB_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "DB_PASSWORD",
        "db_passwd",
        "NGC_CLI_API_KEY",
        "GITHUB_TOKEN",
        "MLFLOW_TRACKING_PASSWORD",
        "CLIENT_SECRET",
        "SSH_PRIVATE_KEY",
        "GOOGLE_CREDENTIALS",
        "GH_PAT",
        "APIKEY",
        "HUGGING_FACE_HUB_TOKEN",
    ],
)
def test_secret_is_redacted_by_its_name(name: str) -> None:
    """Whatever its value; also inside a nested table."""
    assert redact({name: "x"}) == {name: REDACTED}
    assert redact({"A": {name: "x"}}) == {"A": {name: REDACTED}}


@pytest.mark.parametrize(
    "name",
    [
        "TOKENIZERS_PARALLELISM",
        "PATH",
        "PWD",
        "OLDPWD",
        "NCCL_DEBUG",
        "MAX_TOKENS",
        "KEYBOARD",
        "MONKEY",
        "PATTERN",
        "AUTHOR",
    ],
)
def test_other_variables_are_not_redacted(name: str) -> None:
    """Redaction must not eat the evidence."""
    assert redact({name: "x"}) == {name: "x"}


def test_password_in_a_url_is_redacted() -> None:
    """Whatever the variable is called; an empty secret shows that it is empty."""
    assert redact({"http_proxy": "http://me:pw@proxy:8080", "HF_TOKEN": ""}) == {
        "http_proxy": f"http://me:{REDACTED}@proxy:8080",
        "HF_TOKEN": "",
    }


@pytest.mark.parametrize(
    ("names", "hosts"),
    [
        (["n1"], ["n1"]),
        (["n[01-03]"], ["n01", "n02", "n03"]),
        (["n[1,3-4,10],login"], ["n1", "n3", "n4", "n10", "login"]),
        (["r[1-2]n[8-9]"], ["r1n8", "r1n9", "r2n8", "r2n9"]),
        (["rack[01-02]-gpu.local"], ["rack01-gpu.local", "rack02-gpu.local"]),
        (["batch:group1:4"], ["batch:group1:4"]),
        (["n[a-b]"], ["n[a-b]"]),
        ([], []),
    ],
)
def test_host_lists_are_expanded(names: list[str], hosts: list[str]) -> None:
    """Slurm's short form; anything else stays."""
    assert expand_hosts(names) == hosts
