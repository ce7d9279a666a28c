"""Run directories like our runner's, for tests."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from tests.report_schema.report_events import write_events

CONTAINER: dict[str, Any] = {
    "model": {
        "num_layers": 4,
        "hidden_size": 128,
        "num_attention_heads": 4,
        "num_query_groups": None,
        "kv_channels": None,
        "ffn_hidden_size": None,
        "seq_length": 256,
        "normalization": "RMSNorm",
        "position_embedding_type": "rope",
        "tensor_model_parallel_size": 2,
        "pipeline_model_parallel_size": 1,
        "virtual_pipeline_model_parallel_size": None,
        "context_parallel_size": 1,
        "expert_model_parallel_size": 1,
        "expert_tensor_parallel_size": None,
        "sequence_parallel": True,
    },
    "train": {"micro_batch_size": 2, "global_batch_size": 8},
    "dataset": {"seq_length": 256},
    "mixed_precision": {"bf16": False, "fp8": None, "fp8_recipe": None},
    "profiling": {"use_pytorch_profiler": False, "profile_step_start": 10, "profile_step_end": 12},
}
ENVIRONMENT: dict[str, Any] = {
    "run_id": "vanilla-1",
    "recipe": "vanilla_gpt_pretrain_config",
    "topology": {"world_size": 4, "num_nodes": 1, "ranks_per_node": 4},
    "host": {"name": "laptop"},
    "device": {"kind": "cpu"},
    "environment": {"HF_TOKEN": "hf_abc", "OMP_NUM_THREADS": "1"},
    "canonical": False,
    "canonical_differences": ["world size: 1 -> 4", "rng.seed: 1234 -> 7 (override)"],
}


def points(iterations: Iterable[int], *, speed: float = 1.0, losses: dict[int, float] | None = None) -> list[Any]:
    """What our runner logs for some iterations, under Megatron Bridge's tags."""
    logged: list[Any] = []
    for i in iterations:
        loss = (losses or {}).get(i, 1 + 5 * math.exp(-i / 20))
        logged += [
            ("lm loss", i, loss),
            ("lm loss vs samples", 8 * i, loss),
            ("iteration-time", i, (0.4 + 0.01 * math.sin(i)) / speed),
            ("memory/mem-reserved-gigabytes", i, 0.75),
            ("memory/mem-allocated-gigabytes", i, 0.5),
            ("throughput/tflops/device", i, 0.02 * speed),
        ]
    return logged


def make_run(
    directory: Path,
    *sessions: list[Any],
    container: dict[str, Any] | None = None,
    environment: dict[str, Any] | None = None,
) -> Path:
    """A run directory with one event file a session (by default one session of 40 iterations)."""
    for index, session in enumerate(sessions or [points(range(1, 41))]):
        write_events(directory / "tb_logs", session, name=str(1780000000 + index))
    (directory / "configs").mkdir()
    (directory / "configs" / "ConfigContainer.yaml").write_text(yaml.safe_dump({**CONTAINER, **(container or {})}))
    (directory / "environment.json").write_text(json.dumps({**ENVIRONMENT, **(environment or {})}))
    return directory
