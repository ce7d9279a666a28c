"""GPT-OSS 20B, as the MLPerf benchmark of that model trains it, and 120B: pretraining."""

from functools import partial
from typing import Any

from trainwright.recipes.benchmarks.build import benchmark_recipes
from trainwright.recipes.benchmarks.bundles import ATTENTION_AND_ROUTER, FUSED, NOT_GATHERED, SHARDED
from trainwright.recipes.benchmarks.row import Benchmark
from trainwright.recipes.config.model import YARN_FIELDS, ModelConfig
from trainwright.recipes.library.gpt_oss import gpt_oss

_20b = partial(
    Benchmark,
    "gpt_oss_20b",
    tokenizer=128_256,
    seq=8192,
    gbs=4,
    cp=2,
    ep=4,
    dispatcher="hybridep",
    sms=128,
    graphs=ATTENTION_AND_ROUTER,
    graph_warmup=2,
    comm=False,
    optimizer={"adam_eps": 1e-5},
    weight_decay=0.1,
    ddp={
        **SHARDED,
        "average_in_collective": False,
        "bucket_size": 768_000_000,
        "fsdp_double_buffer": True,
        "nccl_ub": True,
    },
)
_20b_nvfp4 = partial(
    _20b,
    lr=6e-4,
    min_lr=6e-4,
    warmup=64,
    eval_interval=341,
    mixed={"fp4_param_gather": False, "first_last_layers_bf16": True, "num_layers_at_end_in_bf16": 4},
    cudnn_norms=True,
)
_20b_mxfp8 = partial(
    _20b,
    lr=4e-4,
    min_lr=4e-4,
    warmup=512,
    eval_interval=384,
    graphs="local",
    capacity=5.0,
    stash=False,
    mixed=NOT_GATHERED,
    model={"cuda_graph_scope": None, "cuda_graph_modules": "full_iteration"},
    env={"TORCH_NCCL_AVOID_RECORD_STREAMS": "1"},
)
_20b_512 = partial(
    _20b_mxfp8,
    tp=2,
    cp=4,
    ep=8,
    gbs=64,
    lr=5.2e-4,
    min_lr=5.2e-4,
    warmup=32,
    eval_interval=192,
    capacity=7.0,
    cudnn_norms=True,
)

# Numbers of Megatron Bridge's benchmark recipes of these names, here and below.
ROWS_20B = (
    _20b_mxfp8("pretrain_8gpu_b300_fp8mx"),
    _20b_nvfp4("pretrain_8gpu_b300_nvfp4", eval_interval=384, cudnn_norms=False),
    _20b_mxfp8("pretrain_64gpu_b300_fp8mx", gbs=32),
    _20b_nvfp4("pretrain_64gpu_b300_nvfp4", gbs=32, eval_interval=384, cudnn_norms=False),
    _20b_nvfp4("pretrain_8gpu_gb200_nvfp4", min_lr=0.0004),
    _20b_nvfp4("pretrain_72gpu_gb200_nvfp4", gbs=36, min_lr=0.0004),
    _20b_512("pretrain_512gpu_gb200_fp8mx"),
    _20b_nvfp4("pretrain_8gpu_gb300_nvfp4"),
    _20b_nvfp4("pretrain_72gpu_gb300_nvfp4", gbs=36),
    _20b_512("pretrain_512gpu_gb300_fp8mx"),
    _20b("pretrain_8gpu_vr200_fp8mx", cp=1, ep=1, mbs=3, gbs=24, graph_warmup=1, mixed=NOT_GATHERED, cudnn_norms=True),
    _20b_nvfp4("pretrain_8gpu_vr200_nvfp4"),
    _20b_nvfp4("pretrain_64gpu_vr200_nvfp4", gbs=32, graph_warmup=1, eval_interval=384),
)

_120b = partial(
    Benchmark,
    "gpt_oss_120b",
    ep=8,
    mbs=4,
    gbs=1280,
    dispatcher="alltoall",
    comm=False,
    ddp={"average_in_collective": False},
)
_120b_graphed = partial(_120b, graphs=ATTENTION_AND_ROUTER)
_120b_recomputed = partial(_120b, recompute=("layernorm", "moe_act"))
_120b_fused = partial(
    _120b, ep=16, dispatcher="hybridep", comm=True, graph_warmup=2, model={"fp8_output_proj": True}, **FUSED
)

ROWS_120B = (
    _120b_recomputed("pretrain_64gpu_h100_bf16", pp=4, mbs=1),
    _120b_recomputed("pretrain_64gpu_h100_fp8cs", pp=4, mbs=1),
    _120b_recomputed("pretrain_64gpu_b200_bf16"),
    _120b_recomputed("pretrain_64gpu_b200_fp8mx"),
    _120b_graphed("pretrain_64gpu_b300_bf16", dispatcher="hybridep"),
    _120b_graphed("pretrain_64gpu_b300_fp8mx", dispatcher="hybridep"),
    _120b_recomputed("pretrain_64gpu_gb200_bf16", ep=64, comm=True, ep_overlap=True),
    _120b_fused("pretrain_64gpu_gb200_fp8mx", ep=64, recompute=()),
    _120b_graphed("pretrain_64gpu_gb300_bf16", ep=64),
    _120b_fused("pretrain_64gpu_gb300_fp8mx"),
    _120b_graphed("pretrain_64gpu_vr200_bf16", ep=64),
    _120b_fused("pretrain_64gpu_vr200_fp8mx"),
)


def _mlperf(stem: str) -> ModelConfig:
    """The published architecture, with rotary positions as they are and no loss that balances experts."""
    published = gpt_oss(stem).model_dump(exclude_unset=True, exclude=set(YARN_FIELDS))
    return ModelConfig.model_validate(
        {**published, "position_embedding_type": "rope", "moe_aux_loss_coeff": 0.0, "vocab_size": 128_256}
    )


_MODEL: dict[str, Any] = {"bias_dropout_fusion": False, "cp_comm_type": "a2a"}

RECIPES = (
    *benchmark_recipes(
        ROWS_20B,
        _mlperf,
        **_MODEL,
        apply_rope_fusion=False,
        fused_single_qkv_rope=True,
        moe_permute_fusion=False,
        moe_router_force_load_balancing=False,
        moe_router_fusion=False,
        moe_router_padding_for_quantization=True,
        tp_only_amax_red=True,
        cpu_offloading_num_layers=95,
    ),
    *benchmark_recipes(ROWS_120B, gpt_oss, **_MODEL, calculate_per_token_loss=True),
)
