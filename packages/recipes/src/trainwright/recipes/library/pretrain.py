"""The pretraining recipes: the columns of every family's table, and the builder of a row."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.data import DatasetConfig, TokenizerConfig
from trainwright.recipes.config.model import ModelConfig
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

HUNDRED: dict[str, Any] = {"gbs": 1024, "iters": 100, "warmup": 40, "decay": 100, "save_interval": 50}
"""Columns of the recipes that only measure: a hundred updates."""


@dataclass(frozen=True)
class Pretrain(Row):
    """A row: the numbers in which public pretraining recipes differ."""

    tokenizer: int | None = 32_000
    """Tokens to count (`NullTokenizer`); null means the model's own tokenizer."""
    workers: int = 8
    """Loader processes on each rank."""

    @property
    def name(self) -> str:
        """The concrete name."""
        return self.name_of("pretrain")

    @property
    def alias(self) -> str | None:
        """The generic name. A length of sequences, as `16k`, stands before the task; any other variant after it."""
        words = (self.variant, "pretrain") if self.variant[:1].isdigit() else ("pretrain", self.variant)
        return self.alias_of(*words)


def pretrain_recipes(
    rows: Iterable[Pretrain], architecture: Callable[[str], ModelConfig], hub: Mapping[str, str] | None = None
) -> tuple[Recipe, ...]:
    """The recipes of a family's rows. `architecture` gives a stem's model, `hub` the place of its tokenizer."""
    return tuple(
        Recipe(
            name=row.name,
            alias=row.alias,
            task="pretrain",
            world_size=row.gpus,
            hardware="h100",
            precision=row.precision,
            variant=row.variant,
            build=partial(pretrain_recipe, row, architecture, hub or {}),
        )
        for row in rows
    )


def pretrain_recipe(
    row: Pretrain, architecture: Callable[[str], ModelConfig], hub: Mapping[str, str]
) -> ConfigContainer:
    """The configuration of a row. The vocabulary is the tokenizer's, as in the public recipes."""
    return ConfigContainer(
        model=ModelConfig.model_validate(
            {**architecture(row.stem).model_dump(exclude_unset=True, exclude={"vocab_size"}), **model_fields(row)}
        ),
        train=TrainConfig(train_iters=row.iters, global_batch_size=row.gbs, micro_batch_size=row.mbs),
        validation=ValidationConfig(eval_interval=row.eval_interval, eval_iters=row.eval_iters),
        dataset=DatasetConfig(kind="mock", seq_length=row.seq, dataloader_type="single", num_workers=row.workers),
        optimizer=optimizer_section(row),
        scheduler=scheduler_section(row),
        ddp=DdpConfig(
            grad_reduce_in_fp32=row.grads == "fp32",
            overlap_grad_reduce=row.overlap,
            overlap_param_gather=row.overlap,
            average_in_collective=row.overlap,
            use_distributed_optimizer=row.splits_state,
        ),
        checkpoint=CheckpointConfig(save_interval=row.save_interval),
        logger=LoggerConfig(log_interval=row.log_interval),
        tokenizer=_tokenizer(row, hub),
        rng=RngConfig(seed=1234),
        mixed_precision=mixed_precision_section(row),
        env_vars={**NCCL_ENVIRONMENT, **row.env},
    )


def _tokenizer(row: Pretrain, hub: Mapping[str, str]) -> TokenizerConfig:
    """A hub id is the original's; a run names the folder of a local copy in its place."""
    if row.tokenizer is None:
        return TokenizerConfig(tokenizer_type="HuggingFaceTokenizer", tokenizer_model=hub[row.stem])
    return TokenizerConfig(tokenizer_type="NullTokenizer", vocab_size=row.tokenizer)
