"""Llama 3 8B and 70B, Llama 3.1 405B: pretraining; the first two also fine-tuned, the second with LoRA too."""

from functools import partial
from typing import Any

from trainwright.recipes.benchmarks.build import benchmark_recipes
from trainwright.recipes.benchmarks.bundles import EVEN_ENDS, FINETUNE, LARGE_CHUNKS, MLP, NO_SEGMENTS, ONE_CONNECTION
from trainwright.recipes.benchmarks.row import Benchmark
from trainwright.recipes.library.llama import llama

_row = partial(Benchmark, tokenizer=128_256, seq=8192)
_chunked = partial(_row, env=LARGE_CHUNKS)
_tuned = partial(Benchmark, **FINETUNE)
_ONE_CONNECTION = {**ONE_CONNECTION, **LARGE_CHUNKS}

_8b = partial(_row, "llama3_8b", gbs=128)
_8b_graphed = partial(_8b, graphs="local")
_8b_sft = partial(_tuned, "llama3_8b", tokenizer="meta-llama/Meta-Llama-3-8B", lr=5e-6, comm=False, cudnn_norms=True)

_H100_BF16: dict[str, Any] = {"cp": 2, "env": ONE_CONNECTION}
_H100_FP8: dict[str, Any] = {"recompute": 5, "cudnn_norms": True, "env": {"NCCL_CTA_POLICY": "1"}}
_FP8_ATTENTION: dict[str, Any] = {
    "mixed": {"fp8_dot_product_attention": True},
    "env": {"NVTE_DPA_FP8_RECIPE": "Float8CurrentScaling"},
}

# Numbers of Megatron Bridge's benchmark recipes of these names, here and below.
ROWS_8B = (
    _8b("pretrain_8gpu_h100_bf16", **_H100_BF16),
    _8b("pretrain_8gpu_h100_fp8cs", **_H100_FP8),
    _8b("pretrain_64gpu_h100_bf16", gbs=1024, **_H100_BF16),
    _8b("pretrain_64gpu_h100_fp8cs", gbs=1024, **_H100_FP8),
    _8b_graphed("pretrain_8gpu_b200_bf16", mbs=2),
    _8b_graphed("pretrain_8gpu_b200_fp8cs", mbs=2),
    _8b_graphed("pretrain_8gpu_b200_fp8mx", mbs=2),
    _8b("pretrain_8gpu_b200_nvfp4", mbs=4),
    _8b_graphed("pretrain_64gpu_b200_bf16", mbs=2, gbs=1024),
    _8b_graphed("pretrain_64gpu_b200_fp8cs", mbs=2, gbs=1024),
    _8b_graphed("pretrain_8gpu_b300_bf16", mbs=4),
    _8b_graphed("pretrain_8gpu_b300_fp8cs", mbs=4),
    _8b_graphed("pretrain_8gpu_b300_fp8mx", mbs=4),
    _8b("pretrain_8gpu_b300_nvfp4", mbs=4),
    _8b_graphed("pretrain_8gpu_gb200_bf16", mbs=2),
    _8b_graphed("pretrain_8gpu_gb200_fp8cs", mbs=2),
    _8b_graphed("pretrain_8gpu_gb200_fp8mx", mbs=2),
    _8b("pretrain_8gpu_gb200_nvfp4", mbs=4, **_FP8_ATTENTION),
    _8b_graphed("pretrain_32gpu_gb200_bf16", mbs=2, gbs=512),
    _8b_graphed("pretrain_32gpu_gb200_fp8cs", mbs=2, gbs=512),
    _8b_graphed("pretrain_8gpu_gb300_bf16", mbs=4),
    _8b_graphed("pretrain_8gpu_gb300_fp8cs", mbs=4),
    _8b_graphed("pretrain_8gpu_gb300_fp8mx", mbs=4),
    _8b_graphed("pretrain_8gpu_gb300_nvfp4", mbs=4),
    _8b_graphed("pretrain_32gpu_gb300_bf16", mbs=4, gbs=512),
    _8b_graphed("pretrain_32gpu_gb300_fp8cs", mbs=4, gbs=512),
    _8b_graphed("pretrain_32gpu_gb300_fp8mx", mbs=4, gbs=512),
    _8b_graphed("pretrain_32gpu_gb300_nvfp4", mbs=4, gbs=512),
    _8b_graphed("pretrain_8gpu_vr200_bf16", mbs=4),
    _8b_graphed("pretrain_8gpu_vr200_fp8cs", mbs=4),
    _8b_graphed("pretrain_8gpu_vr200_fp8mx", mbs=4),
    _8b_graphed("pretrain_8gpu_vr200_nvfp4", mbs=4),
    _8b("pretrain_8gpu_r100_bf16"),
    _8b("pretrain_8gpu_r100_fp8cs"),
    _8b("pretrain_8gpu_r100_fp8mx"),
    _8b("pretrain_8gpu_r100_nvfp4"),
    _8b_sft("sft_8gpu_h100_bf16", gbs=32),
    _8b_sft("sft_8gpu_h100_fp8cs", gbs=32),
    _8b_sft("sft_8gpu_gb200_bf16", gbs=8, seq=16_384),
    _8b_sft("sft_8gpu_gb200_fp8cs", gbs=8, seq=16_384),
    _8b_sft("sft_8gpu_gb200_fp8mx", gbs=8, seq=16_384),
)

_70b = partial(_chunked, "llama3_70b", pp=4, vp=5, gbs=256, tp_overlap=True, buffers="h8192_tp2_mbs1_seqlen8192")
_70b_h100 = partial(_70b, tp=4, buffers="h8192_tp4_mbs1_seqlen8192", step_overlap=True, env=_ONE_CONNECTION)
_70b_fsdp = partial(
    _70b,
    pp=1,
    vp=None,
    fsdp=True,
    cudnn_norms=True,
    ddp={"fsdp_double_buffer": True, "suggested_communication_unit_size": 800_000_000},
    env=NO_SEGMENTS,
)
_70b_tuned = partial(_tuned, "llama3_70b", tokenizer="meta-llama/Meta-Llama-3-70B", gbs=32, graphs=MLP)
_70b_sft = partial(
    _70b_tuned,
    lr=5e-6,
    overlap={"defer_embedding_wgrad_compute": True, "wgrad_deferral_limit": 22},
    cudnn_norms=True,
    env=LARGE_CHUNKS,
)
_70b_peft = partial(_70b_tuned, lr=1e-4, pp=2)

_REGISTERED: dict[str, Any] = {
    "fsdp_double_buffer": True,
    "fsdp_manual_registration": True,
    "nccl_ub": True,
    "suggested_communication_unit_size": 800_000_000,
}
_UNEVEN = "Et*2|(t*2|)*34,t*3|(t*2|)*3,tL"

ROWS_70B = (
    _70b_h100("pretrain_64gpu_h100_bf16", cp=2),
    _70b_h100("pretrain_64gpu_h100_fp8cs", pp=8, layout=_UNEVEN),
    _70b("pretrain_64gpu_b200_bf16", tp=2, cp=2, graphs="local", step_overlap=True),
    _70b_fsdp("pretrain_64gpu_b200_fp8cs", offload=5, cudnn_norms=False),
    _70b("pretrain_64gpu_b200_fp8mx", tp=2),
    _70b("pretrain_64gpu_b200_nvfp4", tp=2, tp_overlap=False),
    _70b_fsdp("pretrain_64gpu_b300_bf16", cudnn_norms=False),
    _70b_fsdp("pretrain_64gpu_b300_fp8cs", cudnn_norms=False),
    _70b("pretrain_64gpu_b300_fp8mx"),
    _70b("pretrain_64gpu_b300_nvfp4", tp_overlap=False),
    _70b_fsdp("pretrain_32gpu_gb200_bf16", gbs=128, offload=20),
    _70b_fsdp("pretrain_32gpu_gb200_fp8cs", mbs=2, gbs=128, offload=40),
    _70b_fsdp("pretrain_64gpu_gb200_bf16", offload=20),
    _70b_fsdp("pretrain_64gpu_gb200_fp8cs", mbs=2, offload=40),
    _70b("pretrain_64gpu_gb200_fp8mx", tp=2),
    _70b("pretrain_64gpu_gb200_nvfp4", tp=2, graphs=(), tp_overlap=False, model={"cuda_graph_modules": []}),
    _70b_fsdp("pretrain_32gpu_gb300_bf16", mbs=2, gbs=128, offload=30, ddp=_REGISTERED),
    _70b_fsdp("pretrain_32gpu_gb300_fp8cs", mbs=2, gbs=128, offload=20),
    _70b_fsdp("pretrain_64gpu_gb300_bf16", mbs=2, offload=30, ddp=_REGISTERED),
    _70b_fsdp("pretrain_64gpu_gb300_fp8cs", mbs=2, offload=20),
    _70b("pretrain_64gpu_gb300_fp8mx"),
    _70b("pretrain_64gpu_gb300_nvfp4", tp_overlap=False),
    _70b_fsdp("pretrain_64gpu_vr200_bf16", mbs=2, offload=30, ddp=_REGISTERED),
    _70b("pretrain_64gpu_vr200_fp8mx"),
    _70b("pretrain_64gpu_vr200_nvfp4", tp_overlap=False),
    _70b_sft(
        "sft_32gpu_h100_bf16", tp=4, pp=4, vp=5, graphs=None, tp_overlap=True, step_overlap=True, env=_ONE_CONNECTION
    ),
    _70b_sft("sft_32gpu_h100_fp8cs", tp=4, pp=4, vp=5, tp_overlap=True, step_overlap=True, env=_ONE_CONNECTION),
    _70b_sft("sft_32gpu_gb200_bf16", pp=8, vp=10, step_overlap=True),
    _70b_sft("sft_32gpu_gb200_fp8cs", pp=8, vp=10, step_overlap=True),
    _70b_sft("sft_32gpu_gb200_fp8mx", pp=8, vp=10),
    _70b_sft("sft_32gpu_gb300_bf16", pp=2, vp=20, step_overlap=True),
    _70b_sft("sft_32gpu_gb300_fp8cs", pp=2, vp=20, step_overlap=True),
    _70b_sft("sft_32gpu_gb300_fp8mx", pp=2, vp=20),
    _70b_peft("peft_8gpu_h100_bf16", pp=4, vp=20, recompute=1, graphs=None, step_overlap=True),
    _70b_peft("peft_8gpu_h100_fp8cs", tp=2, pp=4, vp=20, graphs=None, tp_overlap=True, env=ONE_CONNECTION),
    _70b_peft("peft_8gpu_b200_bf16"),
    _70b_peft("peft_8gpu_b200_fp8cs", vp=20, step_overlap=True),
    _70b_peft("peft_8gpu_b200_fp8mx"),
    _70b_peft("peft_8gpu_b300_bf16", pp=1),
    _70b_peft("peft_8gpu_b300_fp8cs"),
    _70b_peft("peft_8gpu_b300_fp8mx"),
    _70b_peft("peft_8gpu_gb200_bf16", vp=20, gbs=64, seq=2048, step_overlap=True),
    _70b_peft("peft_8gpu_gb200_fp8cs", vp=20, step_overlap=True),
    _70b_peft("peft_8gpu_gb200_fp8mx", pp=4, vp=20),
    _70b_peft("peft_8gpu_gb300_bf16", pp=1),
    _70b_peft("peft_8gpu_gb300_fp8cs", vp=20, step_overlap=True),
    _70b_peft("peft_8gpu_gb300_fp8mx", vp=20),
)

_405b = partial(
    _chunked, "llama31_405b", tp=4, pp=8, vp=4, gbs=1536, tp_overlap=True, buffers="h16384_tp4_cp2_mbs1_seqlen8192"
)
_405b_deep = partial(_405b, pp=16, vp=8)
_405b_h100 = partial(
    _405b, tp=8, vp=8, cp=2, step_overlap=True, buffers="h16384_tp8_cp2_mbs1_seqlen8192", env=_ONE_CONNECTION
)
_405b_fsdp = partial(
    _405b, tp=2, pp=1, vp=None, offload=40, fsdp=True, ddp={"fsdp_double_buffer": True}, env=NO_SEGMENTS
)

_NO_GATHER: dict[str, Any] = {
    "overlap": {"overlap_param_gather": False, "align_param_gather": False},
    "ddp": {"overlap_param_gather": False},
}
_SINGLE_BUFFER: dict[str, Any] = {"ddp": {}, "model": {"gradient_accumulation_fusion": True}}
_NO_AFFINITY = {**LARGE_CHUNKS, "NCCL_IGNORE_CPU_AFFINITY": None}

ROWS_405B = (
    _405b_h100("pretrain_512gpu_h100_bf16", gbs=768),
    _405b_h100("pretrain_512gpu_h100_fp8cs", gbs=768),
    _405b_h100("pretrain_1024gpu_h100_bf16"),
    _405b_h100("pretrain_1024gpu_h100_fp8cs"),
    _405b_deep("pretrain_128gpu_b200_bf16", gbs=768, step_overlap=True),
    _405b("pretrain_128gpu_b200_fp8cs", pp=16, gbs=768, step_overlap=True),
    _405b_deep("pretrain_128gpu_b200_fp8mx", gbs=768),
    _405b_deep("pretrain_128gpu_b200_nvfp4", gbs=768, tp_overlap=False),
    _405b_deep("pretrain_256gpu_b200_bf16", step_overlap=True),
    _405b("pretrain_256gpu_b200_fp8cs", pp=16, step_overlap=True, cudnn_norms=True),
    _405b_deep("pretrain_256gpu_b200_fp8mx"),
    _405b_deep("pretrain_256gpu_b200_nvfp4", tp_overlap=False),
    _405b_fsdp("pretrain_128gpu_b300_bf16", gbs=768, **_SINGLE_BUFFER),
    _405b("pretrain_128gpu_b300_fp8cs", gbs=768, step_overlap=True),
    _405b("pretrain_128gpu_b300_fp8mx", tp=2, cp=2, gbs=768),
    _405b("pretrain_128gpu_b300_nvfp4", gbs=768, tp_overlap=False),
    _405b_fsdp("pretrain_256gpu_b300_bf16", **_SINGLE_BUFFER),
    _405b("pretrain_256gpu_b300_fp8cs", step_overlap=True, cudnn_norms=True, env=_NO_AFFINITY),
    _405b("pretrain_256gpu_b300_fp8mx", tp=2, cp=2, env=_NO_AFFINITY),
    _405b("pretrain_256gpu_b300_nvfp4", tp_overlap=False, env=_NO_AFFINITY),
    _405b_deep("pretrain_128gpu_gb200_bf16", gbs=768, step_overlap=True),
    _405b("pretrain_128gpu_gb200_fp8cs", pp=16, gbs=768, step_overlap=True, cudnn_norms=True),
    _405b_deep("pretrain_128gpu_gb200_fp8mx", gbs=768),
    _405b_deep("pretrain_128gpu_gb200_nvfp4", gbs=768, tp_overlap=False, **_NO_GATHER),
    _405b_deep("pretrain_256gpu_gb200_bf16", step_overlap=True),
    _405b("pretrain_256gpu_gb200_fp8cs", pp=16, step_overlap=True, cudnn_norms=True),
    _405b_deep("pretrain_256gpu_gb200_fp8mx"),
    _405b_deep("pretrain_256gpu_gb200_nvfp4", tp_overlap=False, **_NO_GATHER),
    _405b_fsdp("pretrain_128gpu_gb300_bf16", gbs=768),
    _405b("pretrain_128gpu_gb300_fp8cs", gbs=768, step_overlap=True, cudnn_norms=True),
    _405b("pretrain_128gpu_gb300_fp8mx", tp=2, cp=2, gbs=768),
    _405b("pretrain_128gpu_gb300_nvfp4", gbs=768, tp_overlap=False),
    _405b_fsdp("pretrain_256gpu_gb300_bf16"),
    _405b("pretrain_256gpu_gb300_fp8cs", step_overlap=True, cudnn_norms=True),
    _405b("pretrain_256gpu_gb300_fp8mx", tp=2, cp=2),
    _405b("pretrain_256gpu_gb300_nvfp4", tp_overlap=False),
    _405b_fsdp("pretrain_256gpu_vr200_bf16"),
    _405b("pretrain_256gpu_vr200_fp8mx", tp=2, cp=2),
    _405b("pretrain_256gpu_vr200_nvfp4", tp_overlap=False),
)

RECIPES = (
    *benchmark_recipes((*ROWS_8B, *ROWS_70B), llama),
    *benchmark_recipes(ROWS_405B, llama, **EVEN_ENDS),
)
