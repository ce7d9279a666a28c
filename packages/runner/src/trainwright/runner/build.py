"""From a resolved configuration to the things that train: model, optimizer, schedule and data."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainwright.recipes.presets import ROW_KINDS
from trainwright.runner.errors import RunRefused

if TYPE_CHECKING:
    import torch

    from trainwright.recipes import ConfigContainer, ResolvedRun
    from trainwright.runner.batches import Batch
    from trainwright.runner.devices import Device
    from trainwright.runner.step import Trainer


@dataclass(frozen=True)
class HeldOut:
    """What a validation reads."""

    start: Callable[[], Iterator[Batch]]
    """Micro-batches of this rank from the first on, so that every validation sees the same."""
    global_batches: int
    """How many of them a validation takes."""


@dataclass(frozen=True)
class Data:
    """Micro-batches of this rank, already on its device."""

    train: Iterator[Batch]
    held_out: HeldOut | None
    samples_per_epoch: int | None
    digest: str | None
    """Of the rows that are trained on and all that makes sequences of them; null for token streams."""


def build_trainer(resolved: ResolvedRun, device: Device) -> tuple[Trainer, Any]:
    """Model chunks, wrapped for data parallelism, with optimizer and schedule; and the tokenizer, for the vocabulary.

    Raises:
        RunRefused: the model's vocabulary is smaller than the tokenizer's.
    """
    from trainwright.datasets import build_tokenizer
    from trainwright.recipes.flops import floating_point_operations
    from trainwright.runner.models import build_model
    from trainwright.runner.optim import build_optimizer, build_scheduler
    from trainwright.runner.step import Trainer

    config = resolved.config
    tokenizer = build_tokenizer(config.tokenizer)
    vocab_size = config.model.vocab_size or tokenizer.vocab_size
    if vocab_size < tokenizer.vocab_size:
        raise RunRefused(
            f"model.vocab_size={vocab_size} is smaller than the tokenizer's {tokenizer.vocab_size}; "
            "leave it out to follow the tokenizer"
        )
    chunks = build_model(config, vocab_size=vocab_size)
    if config.peft is not None:
        from trainwright.runner.adapters.attach import attach

        attach(chunks, config, config.peft)
    chunks = wrap_for_data_parallelism(chunks, config)
    optimizer = build_optimizer(config, chunks)
    connect(chunks, optimizer, config)
    operations = floating_point_operations(config, vocab_size)
    return Trainer(resolved, device, chunks, optimizer, build_scheduler(config, optimizer), operations), tokenizer


def wrap_for_data_parallelism(chunks: list[torch.nn.Module], config: ConfigContainer) -> list[torch.nn.Module]:
    """Each chunk in Megatron's DistributedDataParallel, which owns the gradient buffers also on a single rank."""
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.utils import get_model_config

    ddp = config.ddp
    settings = DistributedDataParallelConfig(
        grad_reduce_in_fp32=ddp.grad_reduce_in_fp32,
        overlap_grad_reduce=ddp.overlap_grad_reduce,
        overlap_param_gather=ddp.overlap_param_gather,
        average_in_collective=ddp.average_in_collective,
        use_distributed_optimizer=ddp.use_distributed_optimizer,
        bucket_size=ddp.bucket_size,
        align_param_gather=ddp.align_param_gather,
    )
    logging.getLogger("megatron.core.distributed.distributed_data_parallel").addFilter(_is_not_about_layout)
    # Chunks after the first have nothing to overlap with: their gradients are ready last, in one bucket.
    return [
        DistributedDataParallel(get_model_config(chunk), settings, chunk, disable_bucketing=number > 0)
        for number, chunk in enumerate(chunks)
    ]


def _is_not_about_layout(record: logging.LogRecord) -> bool:
    """It warns that it will compute the layout of the distributed optimizer's buffers itself, as it should."""
    return "full_param_layout not provided" not in record.getMessage()


def connect(chunks: list[torch.nn.Module], optimizer: Any, config: ConfigContainer) -> None:
    """Tell Megatron's schedules how to scale the loss, finish gradients, and overlap communication."""
    from megatron.core.distributed import finalize_model_grads
    from megatron.core.utils import get_model_config

    model_config = get_model_config(chunks[0])
    model_config.grad_scale_func = optimizer.scale_loss
    model_config.finalize_model_grads_func = finalize_model_grads
    if config.ddp.overlap_grad_reduce:
        model_config.no_sync_func = one_or_all([chunk.no_sync for chunk in chunks])
    if config.ddp.overlap_param_gather:
        model_config.param_sync_func = one_or_all([chunk.start_param_sync for chunk in chunks])


def one_or_all(functions: list[Any]) -> Any:
    """Megatron's schedules take one function, or one for each chunk of an interleaved pipeline."""
    return functions[0] if len(functions) == 1 else functions


def build_data(resolved: ResolvedRun, tokenizer: Any, device: Device, *, consumed_samples: int) -> Data:
    """Training micro-batches from `consumed_samples` on, and held-out ones.

    Raises:
        RunRefused: the data does not hold what is asked for.
    """
    from megatron.core import parallel_state

    from trainwright.datasets import DataError, build_datasets, build_loader
    from trainwright.runner.batches import microbatches

    config = resolved.config
    validation = config.validation
    valid_samples = validation.eval_iters * config.train.global_batch_size if validation.eval_interval else 0
    try:
        train, valid = build_datasets(
            config,
            tokenizer,
            train_samples=config.train.train_iters * config.train.global_batch_size,
            valid_samples=valid_samples,
        )
    except DataError as error:
        raise RunRefused(str(error)) from None

    def loader(dataset: Any, consumed: int) -> Iterator[Batch]:
        batches = build_loader(
            dataset,
            config,
            consumed_samples=consumed,
            data_parallel_rank=parallel_state.get_data_parallel_rank(),
            data_parallel_size=resolved.data_parallel_size,
            micro_batch_size=config.train.micro_batch_size,
        )
        return microbatches(batches, device.torch_device)

    def again_and_again(dataset: Any, consumed: int) -> Iterator[Batch]:
        # Skipped updates use up samples as well, so a run may need more than it has updates; it then begins anew.
        usable = len(dataset) // config.train.global_batch_size * config.train.global_batch_size
        while True:
            yield from loader(dataset, consumed % usable)
            consumed = 0

    rows = config.dataset.kind in ROW_KINDS
    endless = rows or config.dataset.dataloader_type == "cyclic"
    return Data(
        train=loader(train, consumed_samples) if endless else again_and_again(train, consumed_samples),
        held_out=HeldOut(lambda: loader(valid, 0), validation_batches(config, valid)) if valid is not None else None,
        samples_per_epoch=getattr(train, "samples_per_epoch", None),
        digest=train.fingerprint if rows else None,
    )


def validation_batches(config: ConfigContainer, held_out: Any) -> int:
    """Global batches of a validation: `validation.eval_iters`, of rows no more than hold them all once."""
    if config.dataset.kind not in ROW_KINDS:
        return config.validation.eval_iters
    return min(config.validation.eval_iters, -(-len(held_out) // config.train.global_batch_size))
