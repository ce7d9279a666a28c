"""What pretraining and fine-tuning rows share: columns, and the sections of a configuration that follow from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from trainwright.recipes.config.training import MixedPrecisionConfig, OptimizerConfig, SchedulerConfig

NCCL_ENVIRONMENT = {
    "NCCL_GRAPH_REGISTER": "0",
    "NCCL_NVLS_ENABLE": "0",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "TORCH_NCCL_AVOID_RECORD_STREAMS": "1",
    "TORCH_NCCL_HIGH_PRIORITY": "1",
}
"""Process environment of the public H100 recipes."""

HYBRIDEP_ENVIRONMENT = {
    "NVTE_BWD_LAYERNORM_SM_MARGIN": "20",
    "NVTE_FWD_LAYERNORM_SM_MARGIN": "20",
    "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN": "8",
    "NVLINK_DOMAIN_SIZE": "8",
    "USE_MNNVL": "0",
}
"""What some of them add for HybridEP on nodes of eight GPUs."""

CHUNKED_ENVIRONMENT = {
    **HYBRIDEP_ENVIRONMENT,
    "CUDA_DEVICE_MAX_CONNECTIONS": "32",
    "NUM_OF_TOKENS_PER_CHUNK_COMBINE_API": "128",
}
"""The same for a dispatcher that combines tokens chunk by chunk."""

BF16: dict[str, Any] = {"grads": "bf16", "precision_aware": True}
"""Columns of the recipes that spare memory: gradients in 16 bits, and an optimizer that takes them."""


PRECISIONS: dict[str, dict[str, Any]] = {
    "bf16": {},
    "fp8cs": {
        "fp8": "hybrid",
        "fp8_recipe": "tensorwise",
        "fp8_param_gather": True,
        "first_last_layers_bf16": True,
        "num_layers_at_start_in_bf16": 1,
        "num_layers_at_end_in_bf16": 1,
    },
    "fp8mx": {"fp8": "e4m3", "fp8_recipe": "mxfp8", "fp8_param_gather": True},
}
"""Word of a name -> `mixed_precision`, beside `bf16`. How many blocks stay in 16 bits is that of the benchmarks."""


@dataclass(frozen=True)
class Row:
    """The numbers in which public recipes differ, whatever they train. Short names are those of run-recipe's flags."""

    stem: str
    gpus: int
    variant: str = ""
    has_alias: bool = True
    """Whether a generic name stands for it."""
    called: str | None = None
    """The generic name after the model, where it is not task and variant."""
    precision: str = "bf16"
    """As in the concrete name: a key of `PRECISIONS`."""
    mixed: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `mixed_precision`."""

    tp: int = 1
    pp: int = 1
    vp: int | None = None
    cp: int = 1
    ep: int = 1
    etp: int | None = 1
    """Ranks of an expert; null means as many as `tp`."""
    layout: str | None = None
    """`model.pipeline_model_parallel_layout`."""
    ends: int | None = None
    """Blocks of the first and of the last pipeline stage, where the two differ from the others."""
    count_ends: bool = False
    """Embedding and loss count as a block each when blocks are shared out."""
    sequence_parallel: bool = True
    """Wherever `tp` is above 1."""

    mbs: int = 1
    gbs: int = 512
    seq: int = 4096
    iters: int = 1_000_000
    eval_interval: int | None = 2000
    eval_iters: int = 32
    save_interval: int = 500
    log_interval: int = 10

    optimizer: Literal["adam", "dist_muon"] = "adam"
    lr: float = 3e-4
    min_lr: float = 3e-5
    beta2: float = 0.95
    eps: float = 1e-8
    warmup: int = 2000
    decay: int | None = None
    """Updates until `min_lr`; null means all."""
    distributed: bool = True
    """Adam's state is split between data parallel ranks."""
    precision_aware: bool = False
    states: Literal["float32", "bfloat16"] = "float32"
    """Type of Adam's moments, and of the gradients that it takes."""
    grads: Literal["fp32", "bf16"] = "fp32"
    """Type in which gradients are summed and reduced."""

    recompute: Literal["full", "selective"] | None = None
    dispatcher: Literal["alltoall", "deepep", "hybridep"] | None = None
    """How tokens get to experts; the last two are `flex` with that backend. Null for a dense model."""
    shared_overlap: bool = False
    """Shared experts compute while tokens travel."""
    router_fusion: bool = False
    cross_entropy: Literal["te", "native"] | None = "te"
    """Implementation of the fused loss; null means not fused."""
    overlap: bool = True
    """Gradients are averaged and parameters gathered while others are computed."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `model`."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Process environment, on top of `NCCL_ENVIRONMENT`."""

    def name_of(self, task: str) -> str:
        """The concrete name."""
        words = (self.stem, f"{task}_{self.gpus}gpu_h100_{self.precision}", self.variant, "config")
        return "_".join(filter(None, words))

    def alias_of(self, *words: str) -> str | None:
        """The generic name: the model and these words, or what the row is called in their place."""
        if not self.has_alias:
            return None
        return "_".join(filter(None, (self.stem, *([self.called] if self.called else words), "config")))

    @property
    def splits_state(self) -> bool:
        """Megatron Core's distributed optimizer splits no other state than Adam's."""
        return self.distributed and self.optimizer == "adam"


def model_fields(row: Row) -> dict[str, Any]:
    """What a row says of `model`."""
    fields: dict[str, Any] = {
        "tensor_model_parallel_size": row.tp,
        "pipeline_model_parallel_size": row.pp,
        "virtual_pipeline_model_parallel_size": row.vp,
        "context_parallel_size": row.cp,
        "sequence_parallel": row.sequence_parallel and row.tp > 1,
        "pipeline_model_parallel_layout": row.layout,
        "num_layers_in_first_pipeline_stage": row.ends,
        "num_layers_in_last_pipeline_stage": row.ends,
        "account_for_embedding_in_pipeline_split": row.count_ends,
        "account_for_loss_in_pipeline_split": row.count_ends,
        "recompute_granularity": row.recompute,
        "recompute_method": "uniform" if row.recompute == "full" else None,
        "recompute_num_layers": 1 if row.recompute == "full" else None,
        "cross_entropy_loss_fusion": row.cross_entropy is not None,
        "cross_entropy_fusion_impl": row.cross_entropy,
    }
    if row.dispatcher is not None:
        fields |= {
            "expert_model_parallel_size": row.ep,
            "expert_tensor_parallel_size": row.etp,
            "moe_token_dispatcher_type": "alltoall" if row.dispatcher == "alltoall" else "flex",
            "moe_flex_dispatcher_backend": None if row.dispatcher == "alltoall" else row.dispatcher,
            "moe_grouped_gemm": True,
            "moe_permute_fusion": True,
            "moe_router_fusion": row.router_fusion,
            "moe_shared_expert_overlap": row.shared_overlap,
        }
        if row.precision != "bf16":
            fields["moe_router_padding_for_quantization"] = True
    if row.variant == "deterministic":
        fields["deterministic_mode"] = True
    return {name: value for name, value in fields.items() if value is not None} | dict(row.model)


def mixed_precision_section(row: Row) -> MixedPrecisionConfig:
    """Of a row. Weights that are gathered in mxfp8 go through the memory of gradients, where the gathering overlaps."""
    fields = {"bf16": True, **PRECISIONS[row.precision], **row.mixed}
    reuse = row.precision == "fp8mx" and fields["fp8_param_gather"] and row.overlap
    return MixedPrecisionConfig.model_validate(fields | {"reuse_grad_buf_for_mxfp8_param_ag": reuse})


def optimizer_section(row: Row) -> OptimizerConfig:
    """Of a row."""
    return OptimizerConfig.model_validate(
        {
            "optimizer": row.optimizer,
            "lr": row.lr,
            "min_lr": row.min_lr,
            "weight_decay": 0.1,
            "adam_beta1": 0.9,
            "adam_beta2": row.beta2,
            "adam_eps": row.eps,
            "clip_grad": 1.0,
            "use_distributed_optimizer": row.splits_state,
            "use_precision_aware_optimizer": row.precision_aware,
            **dict.fromkeys(("main_grads_dtype", "exp_avg_dtype", "exp_avg_sq_dtype"), row.states),
        }
    )


def scheduler_section(row: Row) -> SchedulerConfig:
    """Of a row. The scheduler's weight decay is the one that acts, whatever the optimizer's is."""
    return SchedulerConfig(
        lr_decay_style="cosine",
        lr_warmup_iters=row.warmup,
        lr_decay_iters=row.decay,
        start_weight_decay=0.033,
        end_weight_decay=0.033,
    )
