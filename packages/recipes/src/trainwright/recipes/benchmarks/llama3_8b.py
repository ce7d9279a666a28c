"""Llama 3 8B."""

from functools import partial
from typing import Any

from trainwright.recipes.benchmarks.build import benchmark_recipes
from trainwright.recipes.benchmarks.row import Benchmark
from trainwright.recipes.library.llama import llama

_row = partial(Benchmark, "llama3_8b", tokenizer=128_256, seq=8192, gbs=128)
_graphed = partial(_row, graphs="iteration")

_CUDNN_NORMS = {"NVTE_NORM_BWD_USE_CUDNN": "1", "NVTE_NORM_FWD_USE_CUDNN": "1"}
_H100_FP8: dict[str, Any] = {"recompute": 5, "env": {**_CUDNN_NORMS, "NCCL_CTA_POLICY": "1"}}
_H100_BF16: dict[str, Any] = {"cp": 2, "env": {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}}

# Numbers of Megatron Bridge's benchmark recipes of these names.
ROWS = (
    _row("pretrain_8gpu_h100_bf16", **_H100_BF16),
    _row("pretrain_8gpu_h100_fp8cs", **_H100_FP8),
    _row("pretrain_64gpu_h100_bf16", gbs=1024, **_H100_BF16),
    _row("pretrain_64gpu_h100_fp8cs", gbs=1024, **_H100_FP8),
    _graphed("pretrain_8gpu_b200_bf16", mbs=2),
    _graphed("pretrain_8gpu_b200_fp8cs", mbs=2),
    _graphed("pretrain_8gpu_b200_fp8mx", mbs=2),
    _row("pretrain_8gpu_b200_nvfp4", mbs=4),
    _graphed("pretrain_64gpu_b200_bf16", mbs=2, gbs=1024),
    _graphed("pretrain_64gpu_b200_fp8cs", mbs=2, gbs=1024),
)

RECIPES = benchmark_recipes(ROWS, llama)
