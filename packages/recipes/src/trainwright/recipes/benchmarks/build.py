"""The builder of every benchmark row."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from trainwright.recipes.benchmarks.known_invalid import KNOWN_INVALID
from trainwright.recipes.benchmarks.row import Benchmark
from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.data import DatasetConfig, TokenizerConfig
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.config.running import CheckpointConfig, CommOverlapConfig, DdpConfig, LoggerConfig
from trainwright.recipes.config.training import (
    MixedPrecisionConfig,
    OptimizerConfig,
    RngConfig,
    SchedulerConfig,
    TrainConfig,
    ValidationConfig,
)
from trainwright.recipes.library.recipe import Recipe

ITERATIONS = 50
"""Updates of a benchmark, and of its learning rate's decay."""

_ENDS_IN_BF16 = {"num_layers_at_start_in_bf16": 1, "num_layers_at_end_in_bf16": 1}
_FP8 = {"fp8": "hybrid", "fp8_param_gather": True}

PRECISIONS: dict[str, dict[str, Any]] = {
    "bf16": {},
    "fp8cs": {**_FP8, "fp8_recipe": "tensorwise", **_ENDS_IN_BF16},
    "fp8ds": {
        **_FP8,
        "fp8_recipe": "delayed",
        "fp8_amax_history_len": 1024,
        "fp8_amax_compute_algo": "max",
    },
    "fp8sc": {**_FP8, "fp8_recipe": "blockwise"},
    "fp8mx": {
        "fp8": "e4m3",
        "fp8_recipe": "mxfp8",
        "fp8_param_gather": True,
        "reuse_grad_buf_for_mxfp8_param_ag": True,
    },
    "nvfp4": {"fp4": "e2m1", "fp4_recipe": "nvfp4", "fp4_param_gather": True},
}
"""Word of a name -> `mixed_precision`, beside `bf16`."""

ENVIRONMENT = {
    "CUDA_DEVICE_MAX_CONNECTIONS": "32",
    "NCCL_GRAPH_REGISTER": "0",
    "NCCL_NVLS_ENABLE": "0",
    "NVTE_BWD_LAYERNORM_SM_MARGIN": "20",
    "NVTE_FWD_LAYERNORM_SM_MARGIN": "20",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "TORCH_NCCL_AVOID_RECORD_STREAMS": "1",
    "TORCH_NCCL_HIGH_PRIORITY": "1",
}
"""Process environment of every row."""

OF_HARDWARE = {"b300": {"NCCL_IGNORE_CPU_AFFINITY": "1"}}
OF_PRECISION = {"nvfp4": {"NVTE_USE_FAST_MATH": "1"}}
OF_GRAPHS = {
    "iteration": {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,graph_capture_record_stream_reuse:True",
        "TORCH_NCCL_AVOID_RECORD_STREAMS": "0",
    }
}


def benchmark_recipes(rows: Iterable[Benchmark], architecture: Callable[[str], ModelConfig]) -> tuple[Recipe, ...]:
    """The recipes of a family's rows; `architecture` gives a stem's model."""
    return tuple(
        Recipe(
            name=row.name,
            alias=None,
            task=row.said("task"),
            world_size=int(row.said("gpus")),
            hardware=row.said("hardware"),
            precision=row.said("precision"),
            variant=row.said("variant"),
            benchmark=True,
            known_invalid=KNOWN_INVALID.get(row.name),
            build=partial(benchmark_recipe, row, architecture),
        )
        for row in rows
    )


def benchmark_recipe(row: Benchmark, architecture: Callable[[str], ModelConfig]) -> ConfigContainer:
    """The configuration of a row."""
    return ConfigContainer(
        model=ModelConfig.model_validate(
            {**architecture(row.stem).model_dump(exclude_unset=True, exclude={"vocab_size"}), **_model(row)}
        ),
        train=TrainConfig(
            train_iters=ITERATIONS,
            global_batch_size=row.gbs,
            micro_batch_size=row.mbs,
            manual_gc=True,
        ),
        validation=ValidationConfig(eval_interval=row.eval_interval, eval_iters=0),
        dataset=DatasetConfig(kind="mock", seq_length=row.seq, dataloader_type="single", num_workers=row.workers),
        optimizer=OptimizerConfig(
            lr=row.lr,
            min_lr=row.min_lr,
            weight_decay=0.1,
            adam_beta1=0.9,
            adam_beta2=row.beta2,
            adam_eps=1e-8,
            clip_grad=1.0,
            use_distributed_optimizer=True,
        ),
        scheduler=SchedulerConfig(
            lr_decay_style="cosine",
            lr_warmup_iters=row.warmup,
            lr_decay_iters=ITERATIONS,
            start_weight_decay=0.033,
            end_weight_decay=0.033,
        ),
        ddp=DdpConfig.model_validate(
            {
                "grad_reduce_in_fp32": False,
                "overlap_grad_reduce": True,
                "overlap_param_gather": True,
                "average_in_collective": True,
                "use_distributed_optimizer": True,
                **row.ddp,
            }
        ),
        comm_overlap=None if row.overlap is None else CommOverlapConfig.model_validate(dict(row.overlap)),
        checkpoint=CheckpointConfig(save_interval=row.save_interval),
        logger=LoggerConfig(log_interval=1),
        tokenizer=_tokenizer(row.tokenizer),
        rng=RngConfig(seed=row.seed, te_rng_tracker=row.graphs is not None),
        mixed_precision=MixedPrecisionConfig.model_validate(
            {"bf16": True, **PRECISIONS[row.said("precision")], **row.mixed}
        ),
        env_vars=_environment(row),
    )


def _model(row: Benchmark) -> dict[str, Any]:
    """What a row says of `model`."""
    fields: dict[str, Any] = {
        "tensor_model_parallel_size": row.tp,
        "pipeline_model_parallel_size": row.pp,
        "virtual_pipeline_model_parallel_size": row.vp,
        "context_parallel_size": row.cp,
        "sequence_parallel": row.sequence_parallel and row.tp > 1,
        "pipeline_model_parallel_layout": row.layout,
        "cross_entropy_loss_fusion": True,
        "cross_entropy_fusion_impl": "te",
        "bias_activation_fusion": True,
        "bias_dropout_fusion": True,
        "gradient_accumulation_fusion": True,
        "masked_softmax_fusion": True,
    }
    if isinstance(row.recompute, int):
        fields |= {
            "recompute_granularity": "full",
            "recompute_method": "block",
            "recompute_num_layers": row.recompute,
        }
    elif row.recompute:
        fields |= {"recompute_granularity": "selective", "recompute_modules": list(row.recompute)}
    if row.graphs is not None:
        fields |= {"cuda_graph_impl": "local", "cuda_graph_scope": ["full_iteration"], "use_te_rng_tracker": True}
    return {name: value for name, value in fields.items() if value is not None} | dict(row.model)


def _environment(row: Benchmark) -> dict[str, str]:
    layers = (
        ENVIRONMENT,
        OF_HARDWARE.get(row.said("hardware"), {}),
        OF_PRECISION.get(row.said("precision"), {}),
        OF_GRAPHS.get(row.graphs or "", {}),
        row.env,
    )
    merged: dict[str, str | None] = {name: value for layer in layers for name, value in layer.items()}
    return {name: value for name, value in merged.items() if value is not None}


def _tokenizer(tokenizer: int | str) -> TokenizerConfig:
    """A hub id is the original's; a run names the folder of a local copy in its place."""
    if isinstance(tokenizer, str):
        return TokenizerConfig(tokenizer_type="HuggingFaceTokenizer", tokenizer_model=tokenizer)
    return TokenizerConfig(tokenizer_type="NullTokenizer", vocab_size=tokenizer)
