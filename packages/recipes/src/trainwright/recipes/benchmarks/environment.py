"""The process environment of a benchmark row: what hardware, precision and the other columns stand for."""

from trainwright.recipes.benchmarks.row import Benchmark

Variables = dict[str, str | None]

OF_ALL: Variables = {
    "CUDA_DEVICE_MAX_CONNECTIONS": "32",
    "NCCL_GRAPH_REGISTER": "0",
    "NCCL_NVLS_ENABLE": "0",
    "NVTE_BWD_LAYERNORM_SM_MARGIN": "20",
    "NVTE_FWD_LAYERNORM_SM_MARGIN": "20",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "TORCH_NCCL_AVOID_RECORD_STREAMS": "1",
    "TORCH_NCCL_HIGH_PRIORITY": "1",
}

OF_HARDWARE: dict[str, Variables] = {"b300": {"NCCL_IGNORE_CPU_AFFINITY": "1"}}

OF_PRECISION: dict[str, Variables] = {"nvfp4": {"NVTE_USE_FAST_MATH": "1"}}

OF_ITERATION_GRAPHS: Variables = {
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,graph_capture_record_stream_reuse:True",
    "TORCH_NCCL_AVOID_RECORD_STREAMS": "0",
}

OF_USER_BUFFERS: Variables = {
    "NCCL_CTA_POLICY": "1",
    "NCCL_GRAPH_REGISTER": None,
    "NCCL_NVLS_ENABLE": "1",
    "PYTORCH_CUDA_ALLOC_CONF": None,
}

OF_CUDNN_NORMS: Variables = {"NVTE_NORM_BWD_USE_CUDNN": "1", "NVTE_NORM_FWD_USE_CUDNN": "1"}
OF_FUSED_EXPERTS: Variables = {"NVTE_CUTEDSL_FUSED_GROUPED_MLP": "1"}
OF_STASH: Variables = {"CUDNNFE_CLUSTER_OVERLAP_MARGIN": "8"}
OF_OFFLOADED_MODULES: Variables = {"NVTE_CPU_OFFLOAD_V1": "1"}

RACKS = ("gb200", "gb300", "vr200")
"""Hardware with 72 GPUs in one NVLink domain; all other has 8."""


def environment(row: Benchmark) -> dict[str, str]:
    """Variable -> text of a row, the later over the earlier."""
    hardware = row.said("hardware")
    layers = (
        OF_ALL,
        OF_HARDWARE.get(hardware, {}),
        OF_PRECISION.get(row.said("precision"), {}),
        OF_ITERATION_GRAPHS if row.records_iteration else {},
        OF_USER_BUFFERS if row.ddp.get("nccl_ub") else {},
        OF_CUDNN_NORMS if row.cudnn_norms else {},
        OF_FUSED_EXPERTS if row.capacity else {},
        OF_STASH if row.capacity and row.stash else {},
        OF_OFFLOADED_MODULES if row.offload_modules else {},
        _hybridep(hardware, row.ep) if row.dispatcher == "hybridep" else {},
        row.env,
    )
    merged = {name: value for layer in layers for name, value in layer.items()}
    return {name: value for name, value in merged.items() if value is not None}


def _hybridep(hardware: str, ep: int) -> Variables:
    """Its ranks are those of an expert parallel group that one NVLink domain holds."""
    rack = hardware in RACKS
    return {
        "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN": str(ep if rack else min(ep, 8)),
        "NUM_OF_TOKENS_PER_CHUNK_COMBINE_API": "128",
        "NVLINK_DOMAIN_SIZE": "72" if rack else "8",
        "USE_MNNVL": "1" if rack else "0",
    }
