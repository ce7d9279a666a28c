"""The configuration section of a training report."""

from typing import Any

from trainwright.report_schema.model import ReportModel


class TrainingConfig(ReportModel):
    """The resolved configuration of one training run: where it ran, and what it trained.

    A field without a default must be given; one that may be ``None`` is unknown, or does not apply, when it is.
    Parallel sizes are counts of ranks, lengths are tokens, batch sizes are sequences.
    """

    test_id: str
    """The case within its scenario; the run id of an own run."""
    test_name: str
    """The test's name; the recipe of an own run."""
    description: str
    """Free text about the test."""
    test_scenario_name: str
    """The scenario that the test ran in."""
    test_template_name: str
    """The workload: ``NeMoRun``, ``MegatronRun``, ``MegatronBridge`` or ``Trainwright``."""
    system_path: str
    """Path of the system definition; empty where there is none."""
    tests_dir_path: str
    """Path of the directory of test definitions; empty where there is none."""
    test_scenario_path: str
    """Path of the scenario definition; empty where there is none."""
    container_image: str = ""
    """The image that the ranks ran in; empty outside a container."""
    cloudai_execution_node: str
    """Host name of the machine that ran the launcher or built the report."""
    env_vars: dict[str, Any]
    """Environment variables set for the run, secrets redacted."""
    world_size: int | None = None
    """Ranks in all."""
    num_nodes: int
    """Machines in all."""
    gpus_per_node: int | None = None
    """GPUs of one machine; ``None`` where it is unknown or the run used none."""
    nodes: list[str]
    """Host names of the machines, as far as they are known."""
    clique_size: int | None = None
    """GPUs in one NVLink domain."""
    fp8: str | None = None
    """FP8 format, such as ``hybrid`` or ``e4m3``; ``None`` where FP8 is off."""
    fp8_recipe: str | None = None
    """FP8 scaling recipe, such as ``tensorwise`` or ``delayed``."""
    micro_batch_size: int
    """Sequences of one rank in one forward pass."""
    global_batch_size: int
    """Sequences of all ranks in one step."""
    seq_length: int
    """Tokens of one sequence."""
    tensor_parallel_size: int
    """Ranks that share each layer's matrices."""
    pipeline_parallel_size: int
    """Ranks that share the stack of layers."""
    context_parallel_size: int | None
    """Ranks that share each sequence."""
    virtual_pipeline_parallel_size: int | None
    """Model chunks of one pipeline rank; ``None`` without interleaving."""
    sequence_parallel: bool
    """Whether norms and dropout are split along the sequence over the tensor-parallel ranks."""
    expert_parallel_size: int
    """Ranks that share the experts of a layer."""
    expert_tensor_parallel_size: int
    """Ranks that share the matrices of one expert."""
    data_parallel_size: int | None = None
    """Replicas: world size over tensor, pipeline and context parallel size (experts are carved out of it)."""
    num_layers: int
    """Transformer blocks."""
    hidden_size: int
    """Width of the residual stream."""
    num_attention_heads: int
    """Query heads of one layer."""
    num_query_groups: int
    """Key and value heads of one layer."""
    ffn_hidden_size: int
    """Inner width of the dense feed-forward block."""
    kv_channels: int
    """Width of one attention head."""
    normalization: str
    """Kind of norm, such as ``RMSNorm``."""
    position_embedding_type: str
    """Kind of position embedding, such as ``rope``."""
    model_name: str = ""
    """The recipe or model family."""
    num_experts: int | None
    """Experts of one layer; ``None`` for a dense model."""
    moe_router_topk: int | None
    """Experts that each token visits."""
    moe_ffn_hidden_size: int | None
    """Inner width of one expert."""
    moe_grouped_gemm: bool | None
    """Whether the experts of a rank are multiplied in one grouped call."""
    profiling_enabled: bool = False
    """Whether a profiler ran during some steps."""
    profiling_start_step: int | None = None
    """Iteration at which the profiler starts, as configured."""
    profiling_stop_step: int | None = None
    """Iteration at which the profiler stops, as configured."""
    exclude_start_steps: int = 5
    """Steps that the aggregation leaves out at the start, by position in ``steps``."""
    exclude_post_profiling_steps: int = 2
    """Iterations that the aggregation leaves out after the last profiled one."""
