"""Reading reports that were written before schema 1.0, or by a tool that does not validate."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.report_schema.sample_report import STATS, sample, step

from trainwright.report_schema import ReportError, read_old_report, read_report, write_report

ADDED_IN_1_0 = (
    "test_id",
    "test_name",
    "description",
    "test_scenario_name",
    "system_path",
    "tests_dir_path",
    "test_scenario_path",
    "container_image",
    "cloudai_execution_node",
    "env_vars",
    "gpus_per_node",
    "nodes",
    "clique_size",
    "fp8",
    "fp8_recipe",
    "expert_tensor_parallel_size",
)


def write(tmp_path: Path, document: dict[str, Any]) -> Path:
    path = tmp_path / "training_report.json"
    path.write_text(json.dumps(document))
    return path


def test_proper_report_needs_no_filling(tmp_path: Path) -> None:
    """Both readers give the same."""
    path = write(tmp_path, sample())
    assert read_old_report(path) == (read_report(path), [])


def test_report_before_1_0_is_completed_and_says_how(tmp_path: Path) -> None:
    """Each field that 1.0 added and requires is filled and named; the rest is as it was."""
    document = sample()
    del document["schema_version"]
    for name in ADDED_IN_1_0:
        document["config"].pop(name, None)
    report, filled = read_old_report(write(tmp_path, document))
    assert (report.schema_version, report.config.num_layers) == ("1.0", 32)
    assert (report.config.nodes, report.config.env_vars, report.config.test_id) == ([], {}, "")
    assert report.config.expert_tensor_parallel_size == report.config.tensor_parallel_size == 4
    optional = {"container_image", "gpus_per_node", "clique_size", "fp8", "fp8_recipe"}
    expected = {"schema_version"} | {f"config.{name}" for name in ADDED_IN_1_0 if name not in optional}
    assert {one.field for one in filled} == expected


def test_null_where_a_number_belongs_is_filled(tmp_path: Path) -> None:
    """The existing tool writes null for whatever it does not find."""
    document = sample()
    document["config"] |= {"expert_tensor_parallel_size": None, "kv_channels": None, "container_image": None}
    report, filled = read_old_report(write(tmp_path, document))
    assert (report.config.expert_tensor_parallel_size, report.config.kv_channels) == (4, 0)
    assert [(one.field, one.note) for one in filled] == [
        ("config.container_image", "null: '', which stands for unknown"),
        ("config.expert_tensor_parallel_size", "null: 4, the tensor parallel size"),
        ("config.kv_channels", "null: 0, which stands for unknown"),
    ]


def test_bare_nan_costs_its_step(tmp_path: Path) -> None:
    """A diverged run's old report is no JSON; the finite steps can still be read, and written."""
    document = sample()
    document["steps"] = [step(1), step(2, loss=float("nan")), step(3, loss=None), step(4)]
    document["aggregation"]["loss"] = {**STATS, "mean": float("nan")}
    path = write(tmp_path, document)
    report, filled = read_old_report(path)
    assert [one.iteration for one in report.steps] == [1, 4] and report.aggregation is None
    assert [one.field for one in filled] == ["steps[1]", "steps[2]", "aggregation"]
    write_report(path, report)
    assert read_report(path) == report


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": "2.0"}, "'2.0' is not supported"),
        ({"schema_version": None}, "schema_version: expected"),
        ({"config": []}, "config: input should be"),
        ({"steps": None}, "steps: input should be a valid list"),
        ({"steps": [{"iteration": 1}]}, r"steps\[0\].step_time_sec: field required"),
    ],
)
def test_other_mistakes_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """Filling is for what is missing, not for what is wrong."""
    with pytest.raises(ReportError, match=message):
        read_old_report(write(tmp_path, {**sample(), **change}))
