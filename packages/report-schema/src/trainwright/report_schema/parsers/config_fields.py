"""Putting a report's configuration together from values with a known origin."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from trainwright.report_schema.errors import ReportError
from trainwright.report_schema.report_file import first_problem
from trainwright.report_schema.training_config import TrainingConfig


class Found(NamedTuple):
    """A value, and where it was found."""

    value: Any
    source: str


def look_up(document: Mapping[str, Any], dotted_keys: Iterable[str], label: str) -> Found | None:
    """The first of several dotted keys that a nested document has.

    A key that is there with null counts only if no later one has a value.

    Args:
        document: nested mappings, as read from YAML or TOML.
        dotted_keys: such as ``model.transformer.num_layers``, the best source first.
        label: the document's name in the value's source.
    """
    empty: Found | None = None
    for dotted in dotted_keys:
        value: Any = document
        for key in dotted.split("."):
            if not isinstance(value, Mapping) or key not in value:
                break
            value = value[key]
        else:
            if value is not None:
                return Found(value, f"{label}: {dotted}")
            empty = empty or Found(None, f"{label}: {dotted}")
    return empty


def known(fields: Mapping[str, Found | None]) -> dict[str, Found]:
    """Those that were found."""
    return {name: found for name, found in fields.items() if found is not None}


PROFILING_FIELDS = ("profiling_enabled", "profiling_start_step", "profiling_stop_step")


def merge_profiling(logged: Mapping[str, Found], defined: Mapping[str, Found]) -> dict[str, Found]:
    """What the run logged of its profiler; what the test's definition says, where the run logged that none was on."""
    on = any(fields["profiling_enabled"].value for fields in (logged, defined) if "profiling_enabled" in fields)
    if not on:
        return {"profiling_enabled": Found(False, "no profiler is configured")}
    logged_on = "profiling_enabled" in logged and logged["profiling_enabled"].value
    merged = {**defined, **logged} if logged_on else {**logged, **defined}
    return {name: merged[name] for name in PROFILING_FIELDS if name in merged}


def assemble_config(found: Mapping[str, Found]) -> tuple[TrainingConfig, dict[str, str]]:
    """Fill in what follows from other fields, and check the whole.

    Returns:
        The configuration, and the source of each field that has one.

    Raises:
        ReportError: a field has no source or the wrong type, or the world size does not fit the parallel sizes; the
            message says where the value was found.
    """
    found = {**found, **_derived(found)}
    try:
        config = TrainingConfig.model_validate({name: value for name, (value, _) in found.items()})
    except ValidationError as error:
        field = str(error.errors()[0]["loc"][0])
        if field not in found:
            raise ReportError(f"{field}: no source among the run's files; --set {field}=VALUE gives it") from None
        raise ReportError(f"{found[field].source}: {first_problem(error)}") from None
    return config, {name: source for name, (_, source) in found.items()}


def _derived(found: Mapping[str, Found]) -> dict[str, Found]:
    """Fields that are unset or null in the artifact and follow from others, by Megatron Core's own rules."""

    def value(name: str) -> Any:
        return found[name].value if name in found else None

    derived: dict[str, Found] = {}

    def fill(name: str, source: str, result: Any) -> None:
        if value(name) is None and result is not None:
            derived[name] = Found(result, f"derived: {source}")

    heads, hidden, ffn = value("num_attention_heads"), value("hidden_size"), value("ffn_hidden_size")
    fill("num_query_groups", "num_attention_heads", heads)
    if isinstance(hidden, int):
        fill("ffn_hidden_size", "4 * hidden_size", 4 * hidden)
        if isinstance(heads, int) and heads > 0:
            fill("kv_channels", "hidden_size / num_attention_heads", hidden // heads)
    fill("expert_tensor_parallel_size", "tensor_parallel_size", value("tensor_parallel_size"))
    if value("num_experts") is not None:
        fill("moe_ffn_hidden_size", "ffn_hidden_size", ffn)
    world, nodes, gpus = value("world_size"), value("num_nodes"), value("gpus_per_node")
    if isinstance(gpus, int) and gpus > 0:
        if isinstance(nodes, int):
            fill("world_size", "num_nodes * gpus_per_node", nodes * gpus)
        if isinstance(world, int) and world % gpus == 0:
            fill("num_nodes", "world_size / gpus_per_node", world // gpus)
    found = {**found, **derived}
    fill("data_parallel_size", "world_size / (tensor * pipeline * context parallel size)", _data_parallel_size(found))
    return derived


def _data_parallel_size(found: Mapping[str, Found]) -> int | None:
    """World size over tensor, pipeline and context parallel size (an expert's ranks are among the replicas)."""
    world = found.get("world_size", Found(None, "")).value
    sizes = [
        1 if (size := found.get(f"{kind}_parallel_size", Found(None, "")).value) is None else size
        for kind in ("tensor", "pipeline", "context")
    ]
    if not isinstance(world, int) or not all(isinstance(size, int) for size in sizes):
        return None
    model_ranks = sizes[0] * sizes[1] * sizes[2]
    if model_ranks < 1 or world % model_ranks:
        said = f"tensor {sizes[0]} x pipeline {sizes[1]} x context {sizes[2]}"
        raise ReportError(f"world size {world} is not a multiple of {model_ranks} ({said} parallel size)")
    return world // model_ranks
