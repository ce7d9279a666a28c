"""The builder of every benchmark row."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from trainwright.recipes.benchmarks.environment import environment
from trainwright.recipes.benchmarks.known_invalid import KNOWN_INVALID
from trainwright.recipes.benchmarks.row import Benchmark
from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.data import DatasetConfig, TokenizerConfig
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.config.peft import PeftConfig
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
_GATHERED = {"fp8_param_gather": True}

PRECISIONS: dict[str, dict[str, Any]] = {
    "bf16": {},
    "fp8cs": {"fp8": "hybrid", "fp8_recipe": "tensorwise", **_GATHERED, **_ENDS_IN_BF16},
    "fp8ds": {
        "fp8": "hybrid",
        "fp8_recipe": "delayed",
        "fp8_amax_history_len": 1024,
        "fp8_amax_compute_algo": "max",
        **_GATHERED,
    },
    "fp8sc": {"fp8": "hybrid", "fp8_recipe": "blockwise"},
    "fp8mx": {"fp8": "e4m3", "fp8_recipe": "mxfp8", "reuse_grad_buf_for_mxfp8_param_ag": True, **_GATHERED},
    "nvfp4": {"fp4": "e2m1", "fp4_recipe": "nvfp4", "fp4_param_gather": True},
}
"""Word of a name -> `mixed_precision`, beside `bf16`."""

LORA = PeftConfig(scheme="lora", target_modules=["linear_qkv"], dim=16, alpha=32.0)


def benchmark_recipes(
    rows: Iterable[Benchmark], architecture: Callable[[str], ModelConfig], **of_all: Any
) -> tuple[Recipe, ...]:
    """The recipes of a family's rows; `architecture` gives a stem's model, `of_all` are fields of every row's model."""
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
            build=partial(benchmark_recipe, row, architecture, of_all),
        )
        for row in rows
    )


def benchmark_recipe(
    row: Benchmark, architecture: Callable[[str], ModelConfig], of_all: Mapping[str, Any]
) -> ConfigContainer:
    """The configuration of a row. The vocabulary is the tokenizer's, as in the public recipes."""
    published = architecture(row.stem).model_dump(exclude_unset=True, exclude={"vocab_size"})
    tokenizer = row.tokenizer
    return ConfigContainer(
        model=ModelConfig.model_validate({**published, **_kernels(row), **of_all, **_model(row)}),
        train=TrainConfig(
            train_iters=ITERATIONS,
            global_batch_size=row.gbs,
            micro_batch_size=row.mbs,
            manual_gc=True,
            manual_gc_interval=row.gc_interval,
        ),
        # The benchmarks measure: whatever the interval, no batch is validated.
        validation=ValidationConfig(eval_interval=row.eval_interval, eval_iters=0),
        peft=LORA if row.said("task") == "peft" else None,
        dataset=_dataset(row),
        optimizer=_optimizer(row),
        scheduler=SchedulerConfig(
            lr_decay_style="cosine",
            lr_warmup_iters=row.warmup,
            lr_decay_iters=ITERATIONS,
            start_weight_decay=row.weight_decay,
            end_weight_decay=row.weight_decay,
        ),
        ddp=_ddp(row),
        comm_overlap=_comm_overlap(row) if row.comm else None,
        checkpoint=CheckpointConfig(save_interval=row.save_interval),
        logger=LoggerConfig(log_interval=1),
        # A hub id is the original's; a run names the folder of a local copy in its place.
        tokenizer=TokenizerConfig(tokenizer_type="HuggingFaceTokenizer", tokenizer_model=tokenizer)
        if isinstance(tokenizer, str)
        else TokenizerConfig(tokenizer_type="NullTokenizer", vocab_size=tokenizer),
        rng=RngConfig(seed=row.seed, te_rng_tracker=row.graphs is not None if row.te_rng is None else row.te_rng),
        mixed_precision=MixedPrecisionConfig.model_validate(
            {"bf16": True, **PRECISIONS[row.said("precision")], **row.mixed}
        ),
        env_vars=environment(row),
    )


def _dataset(row: Benchmark) -> DatasetConfig:
    """Generated documents, whatever the task; fine-tuning cuts them in other shares."""
    split = "9999,8,2" if row.said("task") == "pretrain" else "99990,8,2"
    return DatasetConfig(
        kind="mock", seq_length=row.seq, split=split, dataloader_type="single", num_workers=row.workers
    )


def _optimizer(row: Benchmark) -> OptimizerConfig:
    fields: dict[str, Any] = {
        "lr": row.lr,
        "min_lr": row.min_lr,
        "weight_decay": 0.1,
        "adam_beta1": 0.9,
        "adam_beta2": row.beta2,
        "adam_eps": 1e-8,
        "clip_grad": 1.0,
        "use_distributed_optimizer": True,
        "overlap_param_gather_with_optimizer_step": row.step_overlap,
    }
    return OptimizerConfig.model_validate(fields | dict(row.optimizer))


def _ddp(row: Benchmark) -> DdpConfig:
    fields: dict[str, Any] = {
        "grad_reduce_in_fp32": False,
        "overlap_grad_reduce": True,
        "overlap_param_gather": True,
        "average_in_collective": not row.fsdp,
        "use_distributed_optimizer": True,
        "use_megatron_fsdp": row.fsdp,
        "data_parallel_sharding_strategy": "optim_grads_params" if row.fsdp else "no_shard",
    }
    return DdpConfig.model_validate(fields | dict(row.ddp))


def _comm_overlap(row: Benchmark) -> CommOverlapConfig:
    fields: dict[str, Any] = {"tp_comm_overlap": row.tp_overlap}
    if row.buffers:
        kind = "bf16" if row.said("precision") == "bf16" else "fp8"
        hardware = "h100" if row.said("hardware") == "h100" else "b200"
        fields["tp_comm_overlap_cfg"] = f"userbuffers_{kind}_{hardware}_{row.buffers}"
    if row.step_overlap:
        fields["overlap_param_gather_with_optimizer_step"] = True
    if row.ep_overlap:
        fields |= {"overlap_moe_expert_parallel_comm": True, "delay_wgrad_compute": True}
    return CommOverlapConfig.model_validate(fields | dict(row.overlap))


def _kernels(row: Benchmark) -> dict[str, Any]:
    """What all have; the routing of experts is forced to be even, as only a benchmark's may be."""
    fused = {"moe_permute_fusion": True, "moe_router_fusion": True, "moe_router_force_load_balancing": True}
    return {
        **(fused if row.dispatcher else {}),
        "apply_rope_fusion": True,
        "bias_activation_fusion": True,
        "bias_dropout_fusion": True,
        "cross_entropy_fusion_impl": "te",
        "cross_entropy_loss_fusion": row.said("task") != "peft",
        "gradient_accumulation_fusion": not row.fsdp,
    }


def _model(row: Benchmark) -> dict[str, Any]:
    """What a row says of `model`."""
    fields: dict[str, Any] = {
        "tensor_model_parallel_size": row.tp,
        "pipeline_model_parallel_size": row.pp,
        "virtual_pipeline_model_parallel_size": row.vp,
        "context_parallel_size": row.cp,
        "sequence_parallel": row.tp > 1 if row.sequence_parallel is None else row.sequence_parallel,
        "pipeline_model_parallel_layout": row.layout,
        **_recomputation(row),
        **_graphs(row),
        **_offloading(row),
        **_experts(row),
    }
    if row.fsdp:
        fields["init_model_with_meta_device"] = True
    return {name: value for name, value in fields.items() if value is not None} | dict(row.model)


def _recomputation(row: Benchmark) -> dict[str, Any]:
    if row.recompute is None:
        return {}
    if isinstance(row.recompute, int):
        return {"recompute_granularity": "full", "recompute_method": "block", "recompute_num_layers": row.recompute}
    return {"recompute_granularity": "selective", "recompute_modules": list(row.recompute)}


def _graphs(row: Benchmark) -> dict[str, Any]:
    if row.graphs is None:
        return {}
    fields: dict[str, Any] = {"use_te_rng_tracker": True, "cuda_graph_warmup_steps": row.graph_warmup}
    if row.graphs == "iteration":
        return fields | {"cuda_graph_impl": "full_iteration"}
    if row.graphs == "local":
        return fields | {"cuda_graph_impl": "local", "cuda_graph_scope": ["full_iteration"]}
    return fields | {"cuda_graph_impl": "transformer_engine", "cuda_graph_scope": list(row.graphs)}


def _offloading(row: Benchmark) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if row.offload is not None:
        fields = {"cpu_offloading": True, "cpu_offloading_num_layers": row.offload, "cpu_offloading_weights": False}
    if row.offload_modules is not None:
        fields |= {"fine_grained_activation_offloading": True, "offload_modules": list(row.offload_modules)}
    return fields


def _experts(row: Benchmark) -> dict[str, Any]:
    if row.dispatcher is None:
        return {}
    fields: dict[str, Any] = {
        "expert_model_parallel_size": row.ep,
        "expert_tensor_parallel_size": 1,
        "moe_token_dispatcher_type": "alltoall" if row.dispatcher == "alltoall" else "flex",
        "moe_flex_dispatcher_backend": None if row.dispatcher == "alltoall" else row.dispatcher,
        "moe_grouped_gemm": True,
        "moe_hybridep_num_sms": row.sms or (32 if row.dispatcher == "hybridep" else None),
        "moe_hybridep_num_sms_preprocessing": row.scan_sms,
    }
    if row.priority:
        fields["high_priority_a2a_comm_stream"] = True
    if row.capacity is None:
        return fields
    fields |= {
        "use_transformer_engine_op_fuser": True,
        "moe_mlp_glu_interleave_size": 32,
        "moe_expert_rank_capacity_factor": row.capacity,
    }
    if row.stash:
        fields |= {
            "moe_paged_stash": True,
            "moe_paged_stash_buffer_size_factor_cuda": 1.2,
            "moe_paged_stash_buffer_size_factor_cpu": 1.0,
            "moe_pad_experts_for_cuda_graph_inference": True,
        }
    return fields
