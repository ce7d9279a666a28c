"""The pretraining recipes: the columns of every family's table, and the builder of a row."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.data import DatasetConfig, TokenizerConfig
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.config.running import CheckpointConfig, DdpConfig, LoggerConfig
from trainwright.recipes.config.training import (
    MixedPrecisionConfig,
    OptimizerConfig,
    RngConfig,
    SchedulerConfig,
    TrainConfig,
    ValidationConfig,
)
from trainwright.recipes.library.recipe import Recipe

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

BF16: dict[str, Any] = {"grads": "bf16", "precision_aware": True}
"""Columns of the recipes that spare memory: gradients in 16 bits, and an optimizer that takes them."""

HUNDRED: dict[str, Any] = {"gbs": 1024, "iters": 100, "warmup": 40, "decay": 100, "save_interval": 50}
"""Columns of the recipes that only measure: a hundred updates."""


@dataclass(frozen=True)
class Pretrain:
    """A row: the numbers in which public pretraining recipes differ. Short names are those of run-recipe's flags."""

    stem: str
    gpus: int
    variant: str = ""
    has_alias: bool = True
    """Whether a generic name stands for it."""

    tp: int = 1
    pp: int = 1
    vp: int | None = None
    cp: int = 1
    ep: int = 1
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
    eval_interval: int = 2000
    save_interval: int = 500

    optimizer: Literal["adam", "dist_muon"] = "adam"
    lr: float = 3e-4
    min_lr: float = 3e-5
    beta2: float = 0.95
    warmup: int = 2000
    decay: int | None = None
    """Updates until `min_lr`; null means all."""
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
    workers: int = 8
    tokenizer: int | str = 32_000
    """A number of tokens to count (`NullTokenizer`), or the hub id of a tokenizer."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of `model`."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Process environment, on top of `NCCL_ENVIRONMENT`."""

    @property
    def name(self) -> str:
        """The concrete name."""
        return "_".join(filter(None, (self.stem, f"pretrain_{self.gpus}gpu_h100_bf16", self.variant, "config")))

    @property
    def alias(self) -> str | None:
        """The generic name. A length of sequences, as `16k`, stands before the task; any other variant after it."""
        task = (self.variant, "pretrain") if self.variant[:1].isdigit() else ("pretrain", self.variant)
        return "_".join(filter(None, (self.stem, *task, "config"))) if self.has_alias else None


def pretrain_recipes(
    rows: Iterable[Pretrain], architecture: Callable[[str], ModelConfig], **of_all: bool
) -> tuple[Recipe, ...]:
    """The recipes of a family's rows; `architecture` gives a stem's model, `of_all` are fields of `Recipe`."""
    return tuple(
        Recipe(
            name=row.name,
            alias=row.alias,
            task="pretrain",
            world_size=row.gpus,
            hardware="h100",
            build=partial(pretrain_recipe, row, architecture),
            **of_all,
        )
        for row in rows
    )


def pretrain_recipe(row: Pretrain, architecture: Callable[[str], ModelConfig]) -> ConfigContainer:
    """The configuration of a row. The vocabulary is the tokenizer's, as in the public recipes."""
    return ConfigContainer(
        model=ModelConfig.model_validate(
            {**architecture(row.stem).model_dump(exclude_unset=True, exclude={"vocab_size"}), **_model(row)}
        ),
        train=TrainConfig(train_iters=row.iters, global_batch_size=row.gbs, micro_batch_size=row.mbs),
        validation=ValidationConfig(eval_interval=row.eval_interval, eval_iters=32),
        dataset=DatasetConfig(kind="mock", seq_length=row.seq, dataloader_type="single", num_workers=row.workers),
        optimizer=_optimizer(row),
        scheduler=SchedulerConfig(
            lr_decay_style="cosine",
            lr_warmup_iters=row.warmup,
            lr_decay_iters=row.decay,
            # The scheduler's weight decay is the one that acts, whatever the optimizer's is.
            start_weight_decay=0.033,
            end_weight_decay=0.033,
        ),
        ddp=DdpConfig(
            grad_reduce_in_fp32=row.grads == "fp32",
            overlap_grad_reduce=row.overlap,
            overlap_param_gather=row.overlap,
            average_in_collective=row.overlap,
            use_distributed_optimizer=row.optimizer == "adam",
        ),
        checkpoint=CheckpointConfig(save_interval=row.save_interval),
        logger=LoggerConfig(log_interval=10),
        tokenizer=_tokenizer(row.tokenizer),
        rng=RngConfig(seed=1234),
        mixed_precision=MixedPrecisionConfig(bf16=True),
        env_vars={**NCCL_ENVIRONMENT, **row.env},
    )


def _model(row: Pretrain) -> dict[str, Any]:
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
            "expert_tensor_parallel_size": 1,
            "moe_token_dispatcher_type": "alltoall" if row.dispatcher == "alltoall" else "flex",
            "moe_flex_dispatcher_backend": None if row.dispatcher == "alltoall" else row.dispatcher,
            "moe_grouped_gemm": True,
            "moe_permute_fusion": True,
            "moe_router_fusion": row.router_fusion,
            "moe_shared_expert_overlap": row.shared_overlap,
        }
    if row.variant == "deterministic":
        fields["deterministic_mode"] = True
    return {name: value for name, value in fields.items() if value is not None} | dict(row.model)


def _optimizer(row: Pretrain) -> OptimizerConfig:
    """Its state is split between data parallel ranks, where it is Adam's."""
    return OptimizerConfig.model_validate(
        {
            "optimizer": row.optimizer,
            "lr": row.lr,
            "min_lr": row.min_lr,
            "weight_decay": 0.1,
            "adam_beta1": 0.9,
            "adam_beta2": row.beta2,
            "adam_eps": 1e-8,
            "clip_grad": 1.0,
            "use_distributed_optimizer": row.optimizer == "adam",
            "use_precision_aware_optimizer": row.precision_aware,
            **dict.fromkeys(("main_grads_dtype", "exp_avg_dtype", "exp_avg_sq_dtype"), row.states),
        }
    )


def _tokenizer(tokenizer: int | str) -> TokenizerConfig:
    """A hub id is the original's; a run names the folder of a local copy in its place."""
    if isinstance(tokenizer, str):
        return TokenizerConfig(tokenizer_type="HuggingFaceTokenizer", tokenizer_model=tokenizer)
    return TokenizerConfig(tokenizer_type="NullTokenizer", vocab_size=tokenizer)
