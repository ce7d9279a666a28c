"""NeMo runs: ``nemo_config.json`` and the event files of Lightning's logger."""

import re
from pathlib import Path

from trainwright.report_schema.errors import ReportError
from trainwright.report_schema.parsers.config_fields import Found, known, look_up, merge_profiling
from trainwright.report_schema.parsers.evidence import Evidence, only_one, read_events, shown, source_of
from trainwright.report_schema.parsers.surroundings import Surroundings, surrounding_fields
from trainwright.report_schema.parsers.tags import NEMO_RUN_TAGS, metric_lookup
from trainwright.report_schema.strict_json import load_json

WORKLOAD = "nemo-run"
TEMPLATE = "NeMoRun"
CONFIG_NAME = "nemo_config.json"

_SAME_NAME = (
    "num_layers",
    "hidden_size",
    "num_attention_heads",
    "num_query_groups",
    "ffn_hidden_size",
    "kv_channels",
    "normalization",
    "position_embedding_type",
    "moe_router_topk",
    "moe_ffn_hidden_size",
    "moe_grouped_gemm",
    "fp8",
    "fp8_recipe",
)
_PARALLEL = {
    "tensor_parallel_size": "tensor_model_parallel_size",
    "pipeline_parallel_size": "pipeline_model_parallel_size",
    "context_parallel_size": "context_parallel_size",
    "virtual_pipeline_parallel_size": "virtual_pipeline_model_parallel_size",
    "sequence_parallel": "sequence_parallel",
    "expert_parallel_size": "expert_model_parallel_size",
    "expert_tensor_parallel_size": "expert_tensor_parallel_size",
}
_KEYS: dict[str, tuple[str, ...]] = {
    **{name: (f"model.{name}",) for name in _SAME_NAME},
    **{field: (f"parallelism.{key}", f"model.{key}") for field, key in _PARALLEL.items()},
    "num_experts": ("model.num_moe_experts",),
    "micro_batch_size": ("data.micro_batch_size",),
    "global_batch_size": ("data.global_batch_size",),
    "seq_length": ("data.seq_length",),
}


def recognises(run_directory: Path) -> bool:
    """Whether a directory looks like a NeMo run."""
    return any(run_directory.rglob(CONFIG_NAME))


def collect(run_directory: Path, surroundings: Surroundings) -> Evidence:
    """Read a NeMo run.

    Raises:
        ReportError: there is no configuration or no metric, or a file cannot be read.
    """
    path = only_one(sorted(run_directory.rglob(CONFIG_NAME)), run_directory, CONFIG_NAME)
    document = load_json(path, finite=False)
    if not isinstance(document, dict) or not document:
        raise ReportError(f"{path}: expected an object with model, parallelism and data")
    label = shown(path, run_directory)
    config = {field: found for field, keys in _KEYS.items() if (found := look_up(document, keys, label))}
    # Lightning's own place is tb_logs/default; a run that nobody told where to log puts it under nemo_experiments.
    segments, sources, unread = read_events(run_directory, run_directory, metric_lookup(NEMO_RUN_TAGS))
    return Evidence(
        run_directory=run_directory,
        workload=WORKLOAD,
        segments=segments,
        config=config | surrounding_fields(surroundings) | _test_fields(surroundings),
        sources=[*sources, source_of(path, run_directory, "configuration"), *surroundings.sources],
        unread=unread,
        warnings=surroundings.warnings,
    )


def _test_fields(surroundings: Surroundings) -> dict[str, Found]:
    fields = {
        "test_template_name": Found(TEMPLATE, "the workload"),
        "container_image": surroundings.in_test("cmd_args.docker_image_url"),
        "model_name": surroundings.in_test("cmd_args.recipe_name"),
    }
    profiling = {
        "profiling_enabled": surroundings.in_test("nsys.enable"),
        "profiling_start_step": _callback_setting(surroundings, "start_step"),
        "profiling_stop_step": _callback_setting(surroundings, "end_step"),
    }
    return known(fields) | merge_profiling({}, known(profiling))


def _callback_setting(surroundings: Surroundings, name: str) -> Found | None:
    """A setting of the profiler callback, such as ``extra_cmd_args."trainer.callbacks[2].start_step"``.

    Only a whole last word counts: ``optim.warmup_start_step`` is something else.
    """
    arguments = surroundings.test.get("extra_cmd_args")
    for key, value in arguments.items() if isinstance(arguments, dict) else ():
        if re.search(rf"(^|\.){name}$", key):
            number = int(value) if isinstance(value, str) and value.isdecimal() else value
            return Found(number, f"{surroundings.test_label}.extra_cmd_args: {key}")
    return None
