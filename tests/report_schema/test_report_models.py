"""The models are those of the published schema 1.0."""

import subprocess
import sys
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from tests.report_schema.sample_report import CONFIG, sample

from trainwright.report_schema import MetricStats, StepAggregation, TrainingConfig, TrainingResults, TrainingStep

REQUIRED = object()

# Field, type and default, in the order of the published page.
PUBLISHED: dict[type[BaseModel], list[tuple[str, Any, Any]]] = {
    TrainingResults: [
        ("schema_version", str, "1.0"),
        ("config", TrainingConfig, REQUIRED),
        ("steps", list[TrainingStep], REQUIRED),
        ("aggregation", StepAggregation | None, None),
    ],
    TrainingConfig: [
        ("test_id", str, REQUIRED),
        ("test_name", str, REQUIRED),
        ("description", str, REQUIRED),
        ("test_scenario_name", str, REQUIRED),
        ("test_template_name", str, REQUIRED),
        ("system_path", str, REQUIRED),
        ("tests_dir_path", str, REQUIRED),
        ("test_scenario_path", str, REQUIRED),
        ("container_image", str, ""),
        ("cloudai_execution_node", str, REQUIRED),
        ("env_vars", dict[str, Any], REQUIRED),
        ("world_size", int | None, None),
        ("num_nodes", int, REQUIRED),
        ("gpus_per_node", int | None, None),
        ("nodes", list[str], REQUIRED),
        ("clique_size", int | None, None),
        ("fp8", str | None, None),
        ("fp8_recipe", str | None, None),
        ("micro_batch_size", int, REQUIRED),
        ("global_batch_size", int, REQUIRED),
        ("seq_length", int, REQUIRED),
        ("tensor_parallel_size", int, REQUIRED),
        ("pipeline_parallel_size", int, REQUIRED),
        ("context_parallel_size", int | None, REQUIRED),
        ("virtual_pipeline_parallel_size", int | None, REQUIRED),
        ("sequence_parallel", bool, REQUIRED),
        ("expert_parallel_size", int, REQUIRED),
        ("expert_tensor_parallel_size", int, REQUIRED),
        ("data_parallel_size", int | None, None),
        ("num_layers", int, REQUIRED),
        ("hidden_size", int, REQUIRED),
        ("num_attention_heads", int, REQUIRED),
        ("num_query_groups", int, REQUIRED),
        ("ffn_hidden_size", int, REQUIRED),
        ("kv_channels", int, REQUIRED),
        ("normalization", str, REQUIRED),
        ("position_embedding_type", str, REQUIRED),
        ("model_name", str, ""),
        ("num_experts", int | None, REQUIRED),
        ("moe_router_topk", int | None, REQUIRED),
        ("moe_ffn_hidden_size", int | None, REQUIRED),
        ("moe_grouped_gemm", bool | None, REQUIRED),
        ("profiling_enabled", bool, False),
        ("profiling_start_step", int | None, None),
        ("profiling_stop_step", int | None, None),
        ("exclude_start_steps", int, 5),
        ("exclude_post_profiling_steps", int, 2),
    ],
    TrainingStep: [
        ("iteration", int, REQUIRED),
        ("step_time_sec", float, REQUIRED),
        ("loss", float, REQUIRED),
        ("memory_reserved_bytes", float, REQUIRED),
        ("memory_allocated_bytes", float, REQUIRED),
        ("tflops_per_gpu", float | None, None),
    ],
    StepAggregation: [
        ("step_time_sec", MetricStats, REQUIRED),
        ("loss", MetricStats, REQUIRED),
        ("memory_reserved_bytes", MetricStats, REQUIRED),
        ("memory_allocated_bytes", MetricStats, REQUIRED),
        ("tflops_per_gpu", MetricStats | None, None),
    ],
    MetricStats: [(name, float, REQUIRED) for name in ("mean", "min", "max", "std", "t99", "t95")],
}


@pytest.mark.parametrize("model", PUBLISHED, ids=lambda model: model.__name__)
def test_fields_are_the_published_ones(model: type[BaseModel]) -> None:
    """Names, order, types and defaults, to the letter."""
    fields = [
        (name, field.annotation, REQUIRED if field.is_required() else field.default)
        for name, field in model.model_fields.items()
    ]
    assert fields == PUBLISHED[model]


@pytest.mark.parametrize("model", PUBLISHED, ids=lambda model: model.__name__)
def test_every_field_says_what_it_is(model: type[BaseModel]) -> None:
    """Documentation is part of the schema."""
    assert model.__doc__
    assert all(field.description for field in model.model_fields.values())


def test_statistics_are_built_by_position_or_name() -> None:
    """Both ways of the published signature."""
    by_position = MetricStats(1.0, 0.5, 2.0, 0.25, 1.9, 1.8)
    assert by_position == MetricStats(mean=1.0, min=0.5, max=2.0, std=0.25, t99=1.9, t95=1.8)
    assert by_position == MetricStats(1.0, 0.5, max=2.0, std=0.25, t99=1.9, t95=1.8)


def test_statistics_refuse_a_wrong_number_of_values() -> None:
    """Too many is a mistake of the call, too few a missing field, a value twice is refused."""
    with pytest.raises(TypeError, match="takes 6 values, got 7"):
        MetricStats(1, 2, 3, 4, 5, 6, 7)
    with pytest.raises(ValidationError, match="t95"):
        MetricStats(1, 2, 3, 4, 5)
    with pytest.raises(TypeError, match="mean"):
        MetricStats(1, mean=2, min=0, max=0, std=0, t99=0, t95=0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1.0", True, None])
def test_a_loss_is_a_finite_number(value: Any) -> None:
    """Nothing else is made into one."""
    with pytest.raises(ValidationError):
        TrainingStep(iteration=1, step_time_sec=1, loss=value, memory_reserved_bytes=1, memory_allocated_bytes=1)


@pytest.mark.parametrize(("field", "value"), [("num_layers", 4.0), ("num_layers", "4"), ("sequence_parallel", 1)])
def test_a_configuration_is_strict(field: str, value: Any) -> None:
    """Counts are integers, switches booleans."""
    with pytest.raises(ValidationError, match=field):
        TrainingConfig(**{**CONFIG, field: value})


def test_version_has_its_default_when_constructed() -> None:
    """A report that a program makes need not name it."""
    document = sample()
    del document["schema_version"]
    assert TrainingResults(**document).schema_version == "1.0"


def test_importing_the_models_loads_pydantic_alone() -> None:
    """No package beyond pydantic and what it needs itself."""
    code = (
        "import sys, pydantic, pydantic.fields\n"
        "before = set(sys.modules)\n"
        "import trainwright.report_schema\n"
        "roots = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(roots - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    added = set(done.stdout.split())
    assert added <= {
        "trainwright",
        "pydantic",
        "pydantic_core",
        "annotated_types",
        "typing_extensions",
        "typing_inspection",
    }
