"""DeepSeek-V3 and Kimi-K2: pretraining."""

from functools import partial
from typing import Any

from trainwright.recipes.benchmarks.build import benchmark_recipes
from trainwright.recipes.benchmarks.bundles import (
    ATTENTION_AND_ROUTER,
    FUSED,
    FUSED_BUT_ATTENTION,
    NOT_GATHERED,
    ONE_CONNECTION,
    ROUTER,
    SMALL_STATES,
)
from trainwright.recipes.benchmarks.row import Benchmark
from trainwright.recipes.library.deepseek import deepseek

_FOURS = "Et*4|" + "t*4|" * 14
_PAIRS = "Et|(tt|)*30"
"""All chunks but the last."""

_REPEATABLE: dict[str, str | None] = {"NVTE_ALLOW_NONDETERMINISTIC_ALGO": "0"}

_v3 = partial(
    Benchmark,
    "deepseek_v3",
    layout=f"{_FOURS}tmL",
    gbs=4096,
    dispatcher="hybridep",
    recompute=("mla_up_proj",),
    optimizer={**SMALL_STATES, "main_grads_dtype": "bfloat16"},
    overlap={"overlap_grad_reduce": True},
    save_interval=2000,
    env=_REPEATABLE,
)
_v3_h100 = partial(
    _v3,
    tp=2,
    pp=8,
    vp=4,
    ep=64,
    layout=f"{_PAIRS}mL",
    recompute=("mla_up_proj", "mlp"),
    step_overlap=True,
    overlap={"overlap_grad_reduce": False},
    ddp={"overlap_grad_reduce": False},
    env={**_REPEATABLE, **ONE_CONNECTION},
)
_v3_fp8sc = partial(_v3_h100, vp=2, layout=f"{_FOURS}tmL")
_v3_b200 = partial(_v3, pp=16, ep=8)
_v3_b200_deepep = partial(_v3, pp=8, vp=2, ep=32, dispatcher="deepep", ep_overlap=True)
_v3_b300 = partial(_v3, pp=8, vp=2, ep=8, graphs=ATTENTION_AND_ROUTER)
_v3_ep64 = partial(_v3, pp=4, vp=4, ep=64)
_v3_ep64_graphed = partial(_v3_ep64, graphs=ATTENTION_AND_ROUTER)
_v3_ep32 = partial(_v3, pp=2, vp=8, ep=32)
_v3_fsdp = partial(
    _v3,
    fsdp=True,
    ep=64,
    layout=None,
    mbs=2,
    gbs=256,
    offload_modules=("core_attn", "attn_proj"),
    recompute=("layernorm", "mla_up_proj", "moe_act"),
)
# Two virtual stages and sixteen chunks do not fit: see known_invalid.
_v3_dev = partial(
    _v3,
    pp=4,
    vp=2,
    ep=64,
    layout="Et*4|(tttt|)*14tmL",
    sequence_parallel=True,
    gbs=8192,
    graphs=ATTENTION_AND_ROUTER,
    graph_warmup=1,
    ep_overlap=True,
    overlap={},
    optimizer=SMALL_STATES,
    gc_interval=10,
    model={"moe_router_padding_for_quantization": True},
)

_FP8_OUTPUT: dict[str, Any] = {"fp8_output_proj": True}
_FUSED: dict[str, Any] = {**FUSED, "model": _FP8_OUTPUT, "cudnn_norms": True}
_FUSED_BUT_ATTENTION: dict[str, Any] = {**FUSED_BUT_ATTENTION, "model": _FP8_OUTPUT, "cudnn_norms": True}
_RECORDED: dict[str, str | None] = {**_REPEATABLE, "TORCH_NCCL_AVOID_RECORD_STREAMS": "1"}
# The router's type is called `bf16`, which is that of the activations.
_FP8_FSDP: dict[str, Any] = {"cudnn_norms": True, "model": {**_FP8_OUTPUT, "moe_router_dtype": None}}
_HSDP: dict[str, Any] = {
    **_FP8_FSDP,
    "graphs": "iteration",
    "capacity": 1.5,
    "model": {**_FP8_FSDP["model"], "fine_grained_offloading_max_inflight_offloads": 1},
    "ddp": {"num_distributed_optimizer_instances": 4, "outer_dp_sharding_strategy": "optim"},
    "env": {**_REPEATABLE, "CUDNNFE_CLUSTER_OVERLAP_MARGIN": None},
}

# Numbers of Megatron Bridge's benchmark recipes of these names, here and below.
ROWS_V3 = (
    _v3_h100("pretrain_64gpu_h100_bf16", gbs=1024),
    _v3_h100("pretrain_64gpu_h100_fp8cs", gbs=1024),
    _v3_h100("pretrain_1024gpu_h100_bf16", gbs=16_384),
    _v3_h100("pretrain_1024gpu_h100_fp8cs", gbs=16_384),
    _v3_fp8sc("pretrain_1024gpu_h100_fp8sc", gbs=16_384),
    _v3_b200("pretrain_256gpu_b200_bf16"),
    _v3_b200("pretrain_256gpu_b200_fp8cs"),
    _v3_b200_deepep("pretrain_256gpu_b200_fp8mx", recompute=("mla_up_proj", "mlp"), graphs=ATTENTION_AND_ROUTER),
    _v3_b200_deepep(
        "pretrain_256gpu_b200_nvfp4",
        recompute=("mla_up_proj", "layernorm", "moe_act"),
        mixed={"fp4_param_gather": False},
    ),
    _v3_b300("pretrain_256gpu_b300_bf16"),
    _v3_b300("pretrain_256gpu_b300_fp8cs"),
    _v3_b300("pretrain_256gpu_b300_fp8mx", env=_RECORDED, **_FUSED),
    _v3_b300("pretrain_256gpu_b300_nvfp4", mbs=2),
    _v3_ep64_graphed("pretrain_256gpu_gb200_bf16", step_overlap=True),
    _v3_ep64_graphed("pretrain_256gpu_gb200_fp8cs", recompute=("mlp",), step_overlap=True),
    _v3_ep64("pretrain_256gpu_gb200_fp8mx", **_FUSED_BUT_ATTENTION),
    _v3_ep64_graphed("pretrain_256gpu_gb200_nvfp4", recompute=("mlp",)),
    _v3_ep64_graphed("pretrain_256gpu_gb300_bf16", recompute=("moe_act",), step_overlap=True),
    _v3_ep32("pretrain_256gpu_gb300_fp8cs", mbs=2, step_overlap=True),
    _v3_ep32("pretrain_256gpu_gb300_fp8mx", recompute=(), **_FUSED),
    _v3_ep32("pretrain_256gpu_gb300_nvfp4", mbs=2),
    _v3_ep64_graphed("pretrain_128gpu_vr200_bf16", gbs=2048, step_overlap=True),
    _v3_ep64_graphed("pretrain_128gpu_vr200_fp8cs", gbs=2048, recompute=("mlp",), step_overlap=True),
    _v3_ep64("pretrain_128gpu_vr200_fp8mx", gbs=2048, cudnn_norms=True, **FUSED_BUT_ATTENTION),
    _v3_ep64_graphed("pretrain_128gpu_vr200_nvfp4", gbs=2048, recompute=("mlp",)),
    _v3_ep64_graphed("pretrain_256gpu_vr200_bf16", recompute=("moe_act",), step_overlap=True),
    _v3_ep32("pretrain_256gpu_vr200_fp8cs", mbs=2, step_overlap=True),
    _v3_ep32("pretrain_256gpu_vr200_fp8mx", recompute=(), **_FUSED),
    _v3_ep32("pretrain_256gpu_vr200_nvfp4", mbs=2),
    _v3_fsdp("pretrain_64gpu_gb300_bf16_fsdp"),
    _v3_fsdp("pretrain_64gpu_gb300_fp8mx_fsdp", **_FP8_FSDP),
    _v3_fsdp("pretrain_128gpu_gb300_fp8mx_hsdp", ep=32, mbs=1, **_HSDP),
    _v3_fp8sc("pretrain_1024gpu_h100_fp8sc_large_scale", gbs=1024),
    _v3_b200("pretrain_256gpu_b200_fp8mx_large_scale", gbs=256),
    _v3_b300("pretrain_256gpu_b300_fp8mx_large_scale", gbs=256, env=_RECORDED, **_FUSED),
    _v3_ep64("pretrain_256gpu_gb200_fp8mx_large_scale", gbs=256, **_FUSED_BUT_ATTENTION),
    _v3_ep64("pretrain_256gpu_gb300_fp8mx_large_scale", gbs=256, recompute=(), **_FUSED),
    _v3_dev("pretrain_256gpu_gb200_fp8mx_partial_cg_dev", offload_modules=("expert_fc1",)),
    _v3_dev("pretrain_256gpu_gb300_fp8mx_partial_cg_dev", recompute=None),
)

_kimi = partial(
    Benchmark,
    "kimi_k2",
    tokenizer=163_840,
    layout=f"{_FOURS}tL",
    gbs=4096,
    dispatcher="alltoall",
    recompute=("mla_up_proj",),
    beta2=0.999,
    optimizer={"optimizer": "dist_muon", "use_distributed_optimizer": False},
    ddp={"use_distributed_optimizer": False, "overlap_param_gather": False},
    overlap={"overlap_grad_reduce": True},
    save_interval=2000,
)
_kimi_h100 = partial(
    _kimi,
    tp=8,
    pp=16,
    vp=2,
    ep=64,
    layout=f"{_PAIRS}L",
    gbs=8192,
    recompute=("mla_up_proj", "mlp"),
    overlap={"overlap_grad_reduce": False},
    env=ONE_CONNECTION,
)
_kimi_node = partial(_kimi, pp=16, ep=16)
_kimi_rack = partial(_kimi, pp=4, vp=4, ep=64, dispatcher="hybridep")

ROWS_KIMI = (
    _kimi_h100("pretrain_1024gpu_h100_bf16"),
    _kimi_h100("pretrain_1024gpu_h100_fp8cs"),
    _kimi_h100("pretrain_1024gpu_h100_fp8sc"),
    _kimi_node("pretrain_256gpu_b200_bf16", gbs=2048),
    _kimi_node("pretrain_256gpu_b200_fp8cs", gbs=2048),
    _kimi_node("pretrain_256gpu_b200_fp8mx", gbs=2048, mixed=NOT_GATHERED),
    _kimi_node("pretrain_256gpu_b300_bf16", mbs=2),
    _kimi_node("pretrain_256gpu_b300_fp8cs", mbs=2),
    _kimi_node("pretrain_256gpu_b300_fp8mx", mbs=2, mixed=NOT_GATHERED),
    _kimi_rack("pretrain_256gpu_gb200_bf16", gbs=2048, graphs=ROUTER),
    _kimi_rack("pretrain_256gpu_gb200_fp8cs", gbs=2048, graphs=ROUTER),
    _kimi_rack("pretrain_256gpu_gb200_fp8mx", gbs=2048, graphs=ROUTER, mixed=NOT_GATHERED, cudnn_norms=True),
    _kimi_rack("pretrain_256gpu_gb300_bf16", mbs=2, te_rng=True),
    _kimi_rack("pretrain_256gpu_gb300_fp8cs", mbs=2, te_rng=True),
    _kimi_rack("pretrain_256gpu_gb300_fp8mx", mbs=2, te_rng=True, mixed=NOT_GATHERED, cudnn_norms=True),
    _kimi_rack("pretrain_256gpu_gb300_nvfp4", mbs=2, te_rng=True),
    _kimi_rack("pretrain_256gpu_vr200_bf16", mbs=2, te_rng=True),
    _kimi_rack("pretrain_256gpu_vr200_fp8mx", mbs=2, te_rng=True, mixed=NOT_GATHERED, cudnn_norms=True),
)

RECIPES = (
    *benchmark_recipes(
        ROWS_V3, deepseek, init_method_std=0.006, make_vocab_size_divisible_by=1280, gradient_accumulation_fusion=True
    ),
    *benchmark_recipes(ROWS_KIMI, deepseek, make_vocab_size_divisible_by=1280),
)
