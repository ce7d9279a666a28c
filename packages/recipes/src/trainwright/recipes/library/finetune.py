"""The fine-tuning recipes, of all weights and of adapters: the columns of every family's table, and a row's builder."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.data import TokenizerConfig
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.config.peft import PeftConfig
from trainwright.recipes.config.running import CheckpointConfig, DdpConfig, LoggerConfig
from trainwright.recipes.config.training import (
    RngConfig,
    TrainConfig,
    ValidationConfig,
)
from trainwright.recipes.library.recipe import Recipe
from trainwright.recipes.library.row import (
    NCCL_ENVIRONMENT,
    Row,
    mixed_precision_section,
    model_fields,
    optimizer_section,
    scheduler_section,
)
from trainwright.recipes.presets import preset_dataset

SEED = 5678

ATTENTION = ("linear_qkv", "linear_proj")
EVERY = (*ATTENTION, "linear_fc1", "linear_fc2")
"""Linear layers that get an adapter."""


@dataclass(frozen=True)
class Finetune(Row):
    """A row: the numbers in which public fine-tuning recipes differ."""

    dim: int | None = None
    """Rank of the adapters; null trains all weights."""
    alpha: float = 32
    targets: tuple[str, ...] = EVERY

    dataset: str = "squad"
    packed: bool = True
    """Sequences are laid into rows of `seq` tokens before training."""
    data_seed: int = SEED

    etp: int | None = None
    gbs: int = 8
    seq: int = 2048
    iters: int = 1000
    eval_interval: int | None = 30
    save_interval: int = 50
    log_interval: int = 1
    min_lr: float = 0.0
    beta2: float = 0.98
    warmup: int = 50
    cross_entropy: Literal["te", "native"] | None = "native"
    overlap: bool = False

    @property
    def task(self) -> str:
        """In the recipe's name."""
        return "sft" if self.dim is None else "peft"

    @property
    def name(self) -> str:
        """The concrete name."""
        return self.name_of(self.task)

    @property
    def alias(self) -> str | None:
        """The generic name."""
        return self.alias_of(self.task, self.variant)


sft = partial(Finetune, lr=5e-6)
peft = partial(Finetune, lr=1e-4, dim=32)


def finetune_recipes(
    rows: Iterable[Finetune], architecture: Callable[[str], ModelConfig], hub: Mapping[str, str]
) -> tuple[Recipe, ...]:
    """The recipes of a family's rows. `architecture` gives a stem's model, `hub` the place of its weights."""
    return tuple(
        Recipe(
            name=row.name,
            alias=row.alias,
            task=row.task,
            world_size=row.gpus,
            hardware="h100",
            precision=row.precision,
            variant=row.variant,
            build=partial(finetune_recipe, row, architecture, hub[row.stem]),
        )
        for row in rows
    )


def finetune_recipe(row: Finetune, architecture: Callable[[str], ModelConfig], hub: str) -> ConfigContainer:
    """The configuration of a row. The vocabulary is that of the published weights, which a run starts from.

    The tokenizer's hub id is the original's; a run names the folder of a local copy in its place.
    """
    return finetune_config(
        row,
        ModelConfig.model_validate({**architecture(row.stem).model_dump(exclude_unset=True), **model_fields(row)}),
        TokenizerConfig(tokenizer_type="HuggingFaceTokenizer", tokenizer_model=hub),
    )


def finetune_config(row: Finetune, model: ModelConfig, tokenizer: TokenizerConfig) -> ConfigContainer:
    """What a row says of all but the model and its tokenizer."""
    return ConfigContainer(
        model=model,
        peft=_adapters(row),
        train=TrainConfig(train_iters=row.iters, global_batch_size=row.gbs, micro_batch_size=row.mbs),
        validation=ValidationConfig(eval_interval=row.eval_interval, eval_iters=row.eval_iters),
        dataset=preset_dataset(
            row.dataset, seq_length=row.seq, enable_offline_packing=row.packed, random_seed=row.data_seed
        ),
        optimizer=optimizer_section(row),
        scheduler=scheduler_section(row),
        ddp=DdpConfig(
            # The public recipes' precision sets it, whatever their ddp section says.
            grad_reduce_in_fp32=row.grads == "fp32",
            overlap_grad_reduce=row.overlap,
            overlap_param_gather=row.overlap,
            use_distributed_optimizer=row.splits_state,
        ),
        checkpoint=CheckpointConfig(save_interval=row.save_interval),
        logger=LoggerConfig(log_interval=row.log_interval),
        tokenizer=tokenizer,
        rng=RngConfig(seed=SEED),
        mixed_precision=mixed_precision_section(row),
        env_vars={**NCCL_ENVIRONMENT, **row.env},
    )


def _adapters(row: Finetune) -> PeftConfig | None:
    if row.dim is None:
        return None
    return PeftConfig(scheme="lora", target_modules=list(row.targets), dim=row.dim, alpha=row.alpha, dropout=0.0)
