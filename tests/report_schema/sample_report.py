"""A small report for tests."""

from typing import Any

CONFIG: dict[str, Any] = {
    "test_id": "llama",
    "test_name": "llama_8b",
    "description": "",
    "test_scenario_name": "nightly",
    "test_template_name": "MegatronBridge",
    "system_path": "conf/system.toml",
    "tests_dir_path": "conf/test",
    "test_scenario_path": "conf/scenario.toml",
    "cloudai_execution_node": "login01",
    "env_vars": {"NCCL_DEBUG": "WARN", "NESTED": {"depth": [1, 2.5, None]}},
    "num_nodes": 2,
    "nodes": ["n1", "n2"],
    "micro_batch_size": 1,
    "global_batch_size": 128,
    "seq_length": 8192,
    "tensor_parallel_size": 4,
    "pipeline_parallel_size": 1,
    "context_parallel_size": 1,
    "virtual_pipeline_parallel_size": None,
    "sequence_parallel": True,
    "expert_parallel_size": 1,
    "expert_tensor_parallel_size": 4,
    "num_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_query_groups": 8,
    "ffn_hidden_size": 14336,
    "kv_channels": 128,
    "normalization": "RMSNorm",
    "position_embedding_type": "rope",
    "num_experts": None,
    "moe_router_topk": None,
    "moe_ffn_hidden_size": None,
    "moe_grouped_gemm": None,
}
STATS = {"mean": 1.0, "min": 0.5, "max": 2.0, "std": 0.25, "t99": 1.9, "t95": 1.8}


def step(iteration: int, **changes: Any) -> dict[str, Any]:
    """One step as JSON."""
    return {
        "iteration": iteration,
        "step_time_sec": 0.5,
        "loss": 2.0,
        "memory_reserved_bytes": 2e9,
        "memory_allocated_bytes": 1e9,
        "tflops_per_gpu": 400.0,
        **changes,
    }


def sample() -> dict[str, Any]:
    """A valid report as JSON, built anew each time."""
    return {
        "schema_version": "1.0",
        "config": {**CONFIG, "env_vars": {**CONFIG["env_vars"]}, "nodes": list(CONFIG["nodes"])},
        "steps": [step(1), step(2, tflops_per_gpu=None)],
        "aggregation": {
            "step_time_sec": {**STATS},
            "loss": {**STATS},
            "memory_reserved_bytes": {**STATS},
            "memory_allocated_bytes": {**STATS},
            "tflops_per_gpu": None,
        },
    }
