"""Megatron-LM runs: the arguments stand as text summaries in the event files, beside the metrics."""

from pathlib import Path

from trainwright.report_schema.errors import ReportError
from trainwright.report_schema.parsers.config_fields import PROFILING_FIELDS, Found, known, merge_profiling
from trainwright.report_schema.parsers.evidence import Evidence, read_events, shown
from trainwright.report_schema.parsers.field_text import typed_value
from trainwright.report_schema.parsers.segments import RawSegment
from trainwright.report_schema.parsers.surroundings import Surroundings, surrounding_fields
from trainwright.report_schema.parsers.tags import MEGATRON_RUN_TAGS, text_or_metric_lookup

WORKLOAD = "megatron-run"
TEMPLATE = "MegatronRun"
EVENTS_DIRECTORY = "tensorboard"

# The argument of a field, where it is not called like the field.
_ARGUMENTS = {
    "tensor_parallel_size": "tensor_model_parallel_size",
    "pipeline_parallel_size": "pipeline_model_parallel_size",
    "virtual_pipeline_parallel_size": "virtual_pipeline_model_parallel_size",
    "expert_parallel_size": "expert_model_parallel_size",
    "profiling_enabled": "profile",
    "profiling_start_step": "profile_step_start",
    "profiling_stop_step": "profile_step_end",
}
_FIELDS = (
    "world_size",
    "fp8",
    "fp8_recipe",
    "micro_batch_size",
    "global_batch_size",
    "seq_length",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "context_parallel_size",
    "virtual_pipeline_parallel_size",
    "sequence_parallel",
    "expert_parallel_size",
    "expert_tensor_parallel_size",
    "num_layers",
    "hidden_size",
    "num_attention_heads",
    "num_query_groups",
    "ffn_hidden_size",
    "kv_channels",
    "normalization",
    "position_embedding_type",
    "num_experts",
    "moe_router_topk",
    "moe_ffn_hidden_size",
    "moe_grouped_gemm",
    "profiling_enabled",
    "profiling_start_step",
    "profiling_stop_step",
)


def recognises(run_directory: Path) -> bool:
    """Whether a directory looks like a Megatron-LM run."""
    return any((run_directory / EVENTS_DIRECTORY).glob("*tfevents*"))


def collect(run_directory: Path, surroundings: Surroundings) -> Evidence:
    """Read a Megatron-LM run; the configuration is that of the last segment.

    Raises:
        ReportError: there is no metric or no argument in the event files, or they cannot be read.
    """
    standard = run_directory / EVENTS_DIRECTORY
    segments, sources, unread = read_events(
        standard if standard.is_dir() else run_directory, run_directory, text_or_metric_lookup(MEGATRON_RUN_TAGS)
    )
    last = segments[-1]
    config = _argument_fields(last, shown(last.path, run_directory))
    if not config:
        raise ReportError(f"{last.path}: no argument is logged as text, so there is no configuration")
    test, profiling = _test_fields(surroundings)
    logged_profiling = {name: config.pop(name) for name in PROFILING_FIELDS if name in config}
    return Evidence(
        run_directory=run_directory,
        workload=WORKLOAD,
        segments=segments,
        config=surrounding_fields(surroundings) | test | config | merge_profiling(logged_profiling, profiling),
        sources=[*sources, *surroundings.sources],
        unread=unread,
        warnings=[*surroundings.warnings, *_changes(segments, run_directory)],
    )


def _argument_fields(segment: RawSegment, label: str) -> dict[str, Found]:
    """The configuration fields among a segment's text summaries."""
    found: dict[str, Found] = {}
    for field in _FIELDS:
        argument = _ARGUMENTS.get(field, field)
        text = segment.texts.get(f"text:{argument}")
        if text is None:
            continue
        try:
            found[field] = Found(typed_value(field, text), f"{label}: {argument}")
        except ValueError as error:
            raise ReportError(f"{label}: {argument}: {error}") from None
    if segment.texts.get("text:group_query_attention") == "False" and "num_attention_heads" in found:
        # The argument's default, 1, is not what plain multi-head attention has.
        found["num_query_groups"] = Found(found["num_attention_heads"].value, f"{label}: group_query_attention")
    return found


def _changes(segments: list[RawSegment], run_directory: Path) -> list[str]:
    """A line for each field that an earlier segment of the run had another value of."""
    last = _argument_fields(segments[-1], "")
    lines: list[str] = []
    for segment in segments[:-1]:
        earlier = _argument_fields(segment, "")
        lines += [
            f"{shown(segment.path, run_directory)}: {field} was {earlier[field].value!r}, "
            f"the report says {found.value!r} as in the last segment"
            for field, found in last.items()
            if field in earlier and earlier[field].value != found.value
        ]
    return lines


def _test_fields(surroundings: Surroundings) -> tuple[dict[str, Found], dict[str, Found]]:
    """What the test's definition says: of the run, and of its profiler."""
    fields = {
        "test_template_name": Found(TEMPLATE, "the workload"),
        "container_image": surroundings.in_test("cmd_args.docker_image_url"),
        "model_name": surroundings.in_test("name"),
    }
    profiling = {
        "profiling_enabled": surroundings.in_test("nsys.enable"),
        "profiling_start_step": surroundings.in_test("cmd_args.profile_step_start"),
        "profiling_stop_step": surroundings.in_test("cmd_args.profile_step_end"),
    }
    return known(fields), known(profiling)
