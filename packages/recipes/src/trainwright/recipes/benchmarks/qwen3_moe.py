"""Qwen3 30B-A3B and 235B-A22B: pretraining."""

from functools import partial
from typing import Any

from trainwright.recipes.benchmarks.build import benchmark_recipes
from trainwright.recipes.benchmarks.bundles import (
    ATTENTION_AND_ROUTER,
    EVEN_ENDS,
    FUSED,
    NOT_GATHERED,
    ROUTER,
    SHARDED,
    SMALL_STATES,
)
from trainwright.recipes.benchmarks.row import Benchmark
from trainwright.recipes.library.qwen3_moe import qwen3_moe

_row = partial(Benchmark, eval_interval=500, ddp=SHARDED)

_DEV: dict[str, Any] = {"bias_activation_fusion": False, "make_vocab_size_divisible_by": 1187}
"""Fields of `model` of the variants in development. Their router's type is called `float32`, a word that Megatron Core
does not know, so that it computes in that of the activations."""

_30b = partial(_row, "qwen3_30b_a3b", tokenizer="Qwen/Qwen3-30B-A3B", dispatcher="hybridep", ep=8, mbs=4)
_30b_overlapped = partial(_30b, tp_overlap=True)
_30b_h100 = partial(_30b_overlapped, ep=16, mbs=1, gbs=1024)
_30b_dev = partial(_30b, ep=16, comm=False, sms=16, gc_interval=5, model=_DEV)

_PRECISION_AWARE = {"use_precision_aware_optimizer": True}
_H100_BF16: dict[str, Any] = {
    "graphs": ROUTER,
    "ep_overlap": True,
    "overlap": {"delay_wgrad_compute": False},
    "optimizer": _PRECISION_AWARE,
    "save_interval": 50,
    "model": {"moe_permute_fusion_into_hybridep": True},
}
_FEWER_SMS = {
    "NUM_OF_TOKENS_PER_CHUNK_COMBINE_API": "64",
    "NVTE_BWD_LAYERNORM_SM_MARGIN": "10",
    "NVTE_FWD_LAYERNORM_SM_MARGIN": "10",
}
_NO_OVERLAP = {**SHARDED, "overlap_grad_reduce": False, "overlap_param_gather": False}
_GATHERED_FP8 = {"fp8_param_gather": True, "num_layers_at_start_in_bf16": 1, "num_layers_at_end_in_bf16": 1}
_STASH_DEV: dict[str, Any] = {
    **_DEV,
    "cuda_graph_scope": "full_iteration",
    "moe_paged_stash_buffer_size_factor_cuda": 1.1,
    "moe_paged_stash_buffer_size_factor_cpu": 0.0,
}
_PARTIAL_GRAPH_DEV: dict[str, Any] = {
    **_DEV,
    "cuda_graph_scope": list(ATTENTION_AND_ROUTER),
    "external_cuda_graph": True,
    "use_te_rng_tracker": True,
}

# Numbers of Megatron Bridge's benchmark recipes of these names, here and below.
ROWS_30B = (
    _30b_h100("pretrain_16gpu_h100_bf16", env=_FEWER_SMS, **_H100_BF16),
    _30b_h100("pretrain_16gpu_h100_fp8cs", graphs=ATTENTION_AND_ROUTER, cudnn_norms=True),
    _30b_h100("pretrain_16gpu_h100_fp8ds", graphs=ATTENTION_AND_ROUTER, cudnn_norms=True),
    _30b_h100("pretrain_64gpu_h100_bf16", gbs=4096, **_H100_BF16),
    _30b_h100("pretrain_64gpu_h100_fp8cs", gbs=4096, graphs=ATTENTION_AND_ROUTER),
    _30b_overlapped("pretrain_8gpu_b200_bf16", graphs=ATTENTION_AND_ROUTER),
    _30b_overlapped("pretrain_8gpu_b200_fp8cs", graphs=ATTENTION_AND_ROUTER),
    _30b_overlapped(
        "pretrain_8gpu_b200_fp8mx", sms=64, scan_sms=32, graphs=ATTENTION_AND_ROUTER, ep_overlap=True, cudnn_norms=True
    ),
    _30b("pretrain_8gpu_b200_nvfp4", graphs=ATTENTION_AND_ROUTER),
    _30b_overlapped("pretrain_64gpu_b200_bf16", gbs=4096, graphs=ATTENTION_AND_ROUTER),
    _30b_overlapped("pretrain_64gpu_b200_fp8cs", gbs=4096, graphs=ATTENTION_AND_ROUTER),
    _30b_overlapped("pretrain_8gpu_b300_bf16", mbs=8, graphs=ROUTER),
    _30b_overlapped("pretrain_8gpu_b300_fp8cs", mbs=8, graphs=ROUTER),
    _30b_overlapped("pretrain_8gpu_b300_fp8mx", mbs=8, **FUSED),
    _30b("pretrain_8gpu_b300_nvfp4", mbs=8, graphs=ROUTER),
    _30b("pretrain_8gpu_gb200_bf16", graphs=ATTENTION_AND_ROUTER),
    _30b_overlapped("pretrain_8gpu_gb200_fp8cs", graphs=ATTENTION_AND_ROUTER),
    _30b_overlapped("pretrain_8gpu_gb200_fp8mx", **FUSED),
    _30b("pretrain_8gpu_gb200_nvfp4", graphs=ATTENTION_AND_ROUTER, optimizer=_PRECISION_AWARE),
    _30b("pretrain_32gpu_gb200_bf16", gbs=2048, graphs=ATTENTION_AND_ROUTER),
    _30b_overlapped("pretrain_32gpu_gb200_fp8cs", gbs=2048, graphs=ATTENTION_AND_ROUTER),
    _30b_overlapped("pretrain_8gpu_gb300_bf16", mbs=8, graphs=ROUTER),
    _30b_overlapped("pretrain_8gpu_gb300_fp8cs", mbs=8, graphs=ROUTER),
    _30b_overlapped("pretrain_8gpu_gb300_fp8mx", mbs=8, **FUSED),
    _30b("pretrain_8gpu_gb300_nvfp4", mbs=8, graphs=ROUTER),
    _30b_overlapped("pretrain_32gpu_gb300_bf16", mbs=8, gbs=2048, graphs=ROUTER),
    _30b_overlapped("pretrain_32gpu_gb300_fp8cs", mbs=8, gbs=2048, graphs=ROUTER),
    _30b_overlapped("pretrain_8gpu_vr200_bf16", mbs=8, graphs=ROUTER),
    _30b_overlapped("pretrain_8gpu_vr200_fp8mx", **FUSED),
    _30b("pretrain_8gpu_vr200_nvfp4", mbs=8, graphs=ROUTER),
    _30b_dev("pretrain_32gpu_h100_bf16_dev", ep=8, mbs=1, gbs=256),
    _30b_dev(
        "pretrain_32gpu_h100_fp8sc_dev",
        ep=8,
        mbs=1,
        gbs=256,
        graphs=ATTENTION_AND_ROUTER,
        optimizer=SMALL_STATES,
        mixed=_GATHERED_FP8,
    ),
    _30b_dev("pretrain_16gpu_gb200_bf16_dev", ddp=_NO_OVERLAP),
    _30b_dev(
        "pretrain_16gpu_gb200_fp8mx_paged_stash_dev",
        capacity=1.5,
        graphs="local",
        model=_STASH_DEV,
        mixed=NOT_GATHERED,
        ddp=_NO_OVERLAP,
    ),
    _30b_dev(
        "pretrain_16gpu_gb200_fp8mx_partial_cg_dev",
        te_rng=True,
        model=_PARTIAL_GRAPH_DEV,
        mixed=NOT_GATHERED,
        ddp=_NO_OVERLAP,
    ),
)

_235b = partial(_row, "qwen3_235b_a22b", tokenizer="Qwen/Qwen3-235B-A22B", dispatcher="hybridep", gbs=8192)
_235b_overlapped = partial(_235b, tp_overlap=True)
_MARGINS: dict[str, str | None] = {"NVTE_BWD_LAYERNORM_SM_MARGIN": "16", "NVTE_FWD_LAYERNORM_SM_MARGIN": "16"}
_235b_b200 = partial(_235b_overlapped, dispatcher="alltoall", pp=8, ep=8, env=_MARGINS)
_235b_h100 = partial(
    _235b,
    dispatcher="alltoall",
    tp=2,
    pp=8,
    vp=4,
    ep=32,
    step_overlap=True,
    ep_overlap=True,
    env={**_MARGINS, "CUDA_DEVICE_MAX_CONNECTIONS": "8"},
)
_PADDED_DEV: dict[str, Any] = {**_DEV, "moe_router_padding_for_quantization": True}
_235b_dev = partial(_235b, gc_interval=5, ep_overlap=True, optimizer=SMALL_STATES, model=_PADDED_DEV)

_DEEPEP_DEV: dict[str, Any] = {
    **_PADDED_DEV,
    "moe_deepep_num_sms": 20,
    "overlap_p2p_comm": True,
    "batch_p2p_comm": False,
}
_STASH_PADDED_DEV: dict[str, Any] = {
    **_PADDED_DEV,
    "cuda_graph_scope": "full_iteration",
    "moe_paged_stash_buffer_size_factor_cuda": 1.0,
    "moe_paged_stash_buffer_size_factor_cpu": 0.0,
}
_STASH_ON_HOST_DEV: dict[str, Any] = {**_STASH_PADDED_DEV, "moe_paged_stash_buffer_size_factor_cpu": 0.8}

ROWS_235B = (
    _235b_h100("pretrain_256gpu_h100_bf16"),
    _235b_h100("pretrain_256gpu_h100_fp8cs"),
    _235b_b200("pretrain_64gpu_b200_bf16", vp=4, gbs=2048, step_overlap=True),
    _235b_b200("pretrain_64gpu_b200_fp8cs", gbs=2048),
    _235b_b200("pretrain_64gpu_b200_fp8mx", gbs=2048),
    _235b_b200("pretrain_64gpu_b200_nvfp4", gbs=2048, tp_overlap=False),
    _235b_b200("pretrain_256gpu_b200_bf16", vp=4, step_overlap=True),
    _235b_b200("pretrain_256gpu_b200_fp8cs"),
    _235b_overlapped("pretrain_256gpu_b200_fp8mx", pp=8, vp=3, ep=8, **FUSED),
    _235b_b200("pretrain_256gpu_b200_nvfp4", tp_overlap=False),
    _235b_overlapped("pretrain_64gpu_b300_bf16", pp=8, ep=8, mbs=2, gbs=2048),
    _235b_overlapped("pretrain_64gpu_b300_fp8cs", pp=8, ep=8, mbs=2, gbs=2048),
    _235b_overlapped("pretrain_64gpu_b300_fp8mx", pp=8, ep=8, mbs=2, gbs=2048),
    _235b("pretrain_64gpu_b300_nvfp4", pp=8, ep=8, mbs=2, gbs=2048),
    _235b_overlapped("pretrain_256gpu_b300_bf16", pp=8, ep=8, mbs=2),
    _235b_overlapped("pretrain_256gpu_b300_fp8cs", pp=8, ep=8, mbs=2),
    _235b_overlapped("pretrain_256gpu_b300_fp8mx", pp=8, vp=3, ep=8, mbs=2, **FUSED),
    _235b("pretrain_256gpu_b300_nvfp4", pp=8, ep=8, mbs=2),
    _235b_overlapped("pretrain_64gpu_gb200_bf16", pp=8, ep=8, gbs=2048, graphs=ATTENTION_AND_ROUTER),
    _235b_overlapped("pretrain_64gpu_gb200_fp8cs", pp=8, ep=32, gbs=2048, graphs=ATTENTION_AND_ROUTER),
    _235b_overlapped("pretrain_64gpu_gb200_fp8mx", pp=8, vp=3, ep=32, gbs=2048, **FUSED),
    _235b("pretrain_64gpu_gb200_nvfp4", pp=8, ep=32, gbs=2048, graphs=ATTENTION_AND_ROUTER),
    _235b_overlapped("pretrain_256gpu_gb200_bf16", pp=8, ep=8, graphs=ATTENTION_AND_ROUTER),
    _235b_overlapped("pretrain_256gpu_gb200_fp8cs", pp=8, ep=32, graphs=ATTENTION_AND_ROUTER),
    _235b_overlapped("pretrain_256gpu_gb200_fp8mx", pp=8, vp=3, ep=32, **FUSED),
    _235b("pretrain_256gpu_gb200_nvfp4", pp=8, ep=32, graphs=ATTENTION_AND_ROUTER),
    _235b_overlapped("pretrain_64gpu_gb300_bf16", pp=4, ep=32, mbs=2, gbs=2048, graphs=ATTENTION_AND_ROUTER),
    _235b_overlapped("pretrain_64gpu_gb300_fp8cs", pp=4, ep=32, mbs=2, gbs=2048, graphs=ATTENTION_AND_ROUTER),
    _235b_overlapped("pretrain_64gpu_gb300_fp8mx", pp=4, vp=12, ep=32, mbs=2, gbs=2048, **FUSED),
    _235b("pretrain_64gpu_gb300_nvfp4", pp=4, ep=32, mbs=2, gbs=2048, graphs=ATTENTION_AND_ROUTER),
    _235b_overlapped("pretrain_256gpu_gb300_bf16", pp=4, ep=32, mbs=2, graphs=ATTENTION_AND_ROUTER),
    _235b_overlapped("pretrain_256gpu_gb300_fp8cs", pp=4, ep=32, mbs=2, graphs=ATTENTION_AND_ROUTER),
    _235b_overlapped("pretrain_256gpu_gb300_fp8mx", pp=4, vp=12, ep=32, mbs=2, **FUSED),
    _235b("pretrain_256gpu_gb300_nvfp4", pp=4, ep=32, mbs=2, graphs=ATTENTION_AND_ROUTER),
    _235b_overlapped("pretrain_256gpu_vr200_bf16", pp=4, ep=32, mbs=2, graphs=ATTENTION_AND_ROUTER),
    _235b_overlapped("pretrain_256gpu_vr200_fp8mx", pp=4, vp=12, ep=32, mbs=2, **FUSED),
    _235b("pretrain_256gpu_vr200_nvfp4", pp=4, ep=32, mbs=2, graphs=ATTENTION_AND_ROUTER),
    _235b_dev(
        "pretrain_128gpu_b200_fp8mx_deepep_dev",
        tp=2,
        pp=4,
        vp=2,
        ep=16,
        mbs=3,
        gbs=3072,
        dispatcher="deepep",
        model=_DEEPEP_DEV,
    ),
    _235b_dev(
        "pretrain_256gpu_h100_bf16_hybridep_dev",
        tp=2,
        pp=8,
        vp=3,
        ep=32,
        gbs=2048,
        sms=16,
        recompute=("moe_act", "layernorm"),
        graphs=ROUTER,
        optimizer={},
        model=_DEV,
    ),
    _235b_dev(
        "pretrain_128gpu_b300_fp8mx_hybridep_dev",
        tp=2,
        ep=16,
        mbs=3,
        gbs=9216,
        graphs=("attn", "moe_router"),
        graph_warmup=2,
    ),
    _235b_h100("pretrain_256gpu_h100_fp8cs_large_scale", gbs=512),
    _235b_overlapped("pretrain_256gpu_b200_fp8mx_large_scale", pp=8, vp=3, ep=8, gbs=512, **FUSED),
    _235b_overlapped("pretrain_256gpu_b300_fp8mx_large_scale", pp=8, vp=3, ep=8, mbs=2, gbs=512, **FUSED),
    _235b_overlapped("pretrain_256gpu_gb200_fp8mx_large_scale", pp=8, vp=3, ep=32, gbs=512, **FUSED),
    _235b_overlapped("pretrain_256gpu_gb300_fp8mx_large_scale", pp=4, vp=12, ep=32, mbs=2, gbs=512, **FUSED),
    _235b_dev(
        "pretrain_128gpu_gb200_fp8mx_paged_stash_dev",
        ep=64,
        capacity=1.2,
        graphs="local",
        graph_warmup=2,
        model=_STASH_ON_HOST_DEV,
    ),
    _235b_dev(
        "pretrain_128gpu_gb300_fp8mx_paged_stash_dev",
        ep=64,
        capacity=1.2,
        graphs="local",
        graph_warmup=2,
        model=_STASH_PADDED_DEV,
    ),
    _235b_dev("pretrain_128gpu_gb200_fp8mx_partial_cg_dev", ep=64, graphs=ATTENTION_AND_ROUTER, graph_warmup=2),
)

_MODEL: dict[str, Any] = {"bias_dropout_fusion": False}

RECIPES = (
    *benchmark_recipes(ROWS_30B, qwen3_moe, **_MODEL),
    *benchmark_recipes(ROWS_235B, qwen3_moe, **_MODEL, **EVEN_ENDS),
)
