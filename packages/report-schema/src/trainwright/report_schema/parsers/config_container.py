"""Reading ``ConfigContainer.yaml``: the configuration that Megatron Bridge, and our own runner, write down."""

from pathlib import Path
from typing import Any

import yaml

from trainwright.report_schema.errors import ReportError
from trainwright.report_schema.parsers.config_fields import Found, look_up

# Model families that Megatron Bridge builds through a builder nest the transformer's fields one level deeper.
_MODEL_FIELDS = {
    "seq_length": "seq_length",
    "tensor_parallel_size": "tensor_model_parallel_size",
    "pipeline_parallel_size": "pipeline_model_parallel_size",
    "context_parallel_size": "context_parallel_size",
    "virtual_pipeline_parallel_size": "virtual_pipeline_model_parallel_size",
    "sequence_parallel": "sequence_parallel",
    "expert_parallel_size": "expert_model_parallel_size",
    "expert_tensor_parallel_size": "expert_tensor_parallel_size",
    "num_layers": "num_layers",
    "hidden_size": "hidden_size",
    "num_attention_heads": "num_attention_heads",
    "num_query_groups": "num_query_groups",
    "ffn_hidden_size": "ffn_hidden_size",
    "kv_channels": "kv_channels",
    "normalization": "normalization",
    "position_embedding_type": "position_embedding_type",
    "num_experts": "num_moe_experts",
    "moe_router_topk": "moe_router_topk",
    "moe_ffn_hidden_size": "moe_ffn_hidden_size",
    "moe_grouped_gemm": "moe_grouped_gemm",
}

FIELD_KEYS: dict[str, tuple[str, ...]] = {
    **{field: (f"model.transformer.{key}", f"model.{key}") for field, key in _MODEL_FIELDS.items()},
    "seq_length": ("model.seq_length", "model.transformer.seq_length", "dataset.seq_length"),
    "micro_batch_size": ("train.micro_batch_size",),
    "global_batch_size": ("train.global_batch_size",),
    "fp8": ("mixed_precision.fp8", "model.transformer.fp8", "model.fp8"),
    "fp8_recipe": ("mixed_precision.fp8_recipe", "model.transformer.fp8_recipe", "model.fp8_recipe"),
}
"""For each configuration field, the dotted keys that hold it, the best source first."""


def is_bridge_container(path: Path) -> bool:
    """Whether a file is Megatron Bridge's own: it names its classes."""
    try:
        return b"_target_: megatron.bridge." in path.read_bytes()
    except OSError:
        return False


def read_container(path: Path) -> dict[str, Any]:
    """Read the whole file.

    Raises:
        ReportError: it cannot be read, or is not a YAML mapping.
    """
    try:
        container = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror or error}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ReportError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(container, dict):
        raise ReportError(f"{path}: expected a mapping, got {type(container).__name__}")
    return container


def container_fields(container: dict[str, Any], label: str) -> dict[str, Found]:
    """The configuration fields that the file gives, profiling included."""
    found = {field: value for field, keys in FIELD_KEYS.items() if (value := look_up(container, keys, label))}
    return {**found, **_profiling(container, label)}


def _profiling(container: dict[str, Any], label: str) -> dict[str, Found]:
    """Whichever profiler is on: Megatron Bridge profiles iterations start + 1 to stop, counting from 1."""
    section = container.get("profiling")
    if not isinstance(section, dict):
        return {}
    used = [key for key in ("use_nsys_profiler", "use_pytorch_profiler") if section.get(key)]
    if not used:
        return {"profiling_enabled": Found(False, f"{label}: profiling")}
    return {
        "profiling_enabled": Found(True, f"{label}: profiling.{used[0]}"),
        "profiling_start_step": Found(section.get("profile_step_start"), f"{label}: profiling.profile_step_start"),
        "profiling_stop_step": Found(section.get("profile_step_end"), f"{label}: profiling.profile_step_end"),
    }
