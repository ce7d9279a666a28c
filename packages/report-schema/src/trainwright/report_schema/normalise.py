"""A configuration in the terms that all frameworks share, so that two of them can be compared."""

from typing import Any

from trainwright.report_schema.training_config import TrainingConfig

# What names a run or places it, rather than shaping it.
_IDENTITY = frozenset(
    {
        "test_id",
        "test_name",
        "description",
        "test_scenario_name",
        "system_path",
        "tests_dir_path",
        "test_scenario_path",
        "cloudai_execution_node",
        "nodes",
        "model_name",
    }
)
_ONLY_WITH_EXPERTS = (
    "moe_router_topk",
    "moe_ffn_hidden_size",
    "moe_grouped_gemm",
    "expert_parallel_size",
    "expert_tensor_parallel_size",
)
_ONE_WHEN_UNSET = ("context_parallel_size", "virtual_pipeline_parallel_size")


def normalised(config: TrainingConfig) -> dict[str, Any]:
    """The fields that shape a run, each with one spelling for one meaning.

    Frameworks fill in fields that have no effect, each with a default of its own: an FP8 recipe without FP8, a router's
    top-k without experts, a profiler's steps without a profiler. Those become null here, and counts that are unset
    become the 1 they mean. Environment variables are listed one by one, as ``env_vars.NAME``.
    """
    fields = {name: value for name, value in config.model_dump().items() if name not in _IDENTITY}
    for name, value in fields.pop("env_vars").items():
        fields[f"env_vars.{name}"] = value
    if not fields["fp8"]:
        fields |= {"fp8": None, "fp8_recipe": None}
    if not fields["num_experts"]:
        fields |= {"num_experts": None, **dict.fromkeys(_ONLY_WITH_EXPERTS)}
    if not fields["profiling_enabled"]:
        fields |= {"profiling_start_step": None, "profiling_stop_step": None}
    if fields["tensor_parallel_size"] == 1:
        fields["sequence_parallel"] = False
    for name in _ONE_WHEN_UNSET:
        fields[name] = fields[name] or 1
    for name in ("fp8", "fp8_recipe", "normalization", "position_embedding_type"):
        fields[name] = fields[name].lower() if isinstance(fields[name], str) else fields[name]
    return fields


def differences(base: TrainingConfig, new: TrainingConfig) -> list[tuple[str, Any, Any]]:
    """Field, value of ``base`` and value of ``new`` wherever the normalised configurations differ.

    An environment variable that one of them lacks is null there.
    """
    left, right = normalised(base), normalised(new)
    names = [*left, *(name for name in right if name not in left)]
    return [(name, left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)]
