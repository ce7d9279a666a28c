"""One training update: forward and backward over all micro-batches, then the optimizer."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from trainwright.recipes.packing import row_length
from trainwright.runner.batches import Batch, for_each_chunk, forward_step
from trainwright.runner.errors import Diverged
from trainwright.runner.optim.qk_clip import ObservedHeads, clip_heads, forget_logits

if TYPE_CHECKING:
    from trainwright.recipes import ResolvedRun
    from trainwright.recipes.flops import Operations
    from trainwright.runner.checkpoints.base import Base
    from trainwright.runner.devices import Device


@dataclass
class Trainer:
    """What an update needs: this rank's model chunks (wrapped for data parallelism), optimizer and schedule."""

    resolved: ResolvedRun
    device: Device
    chunks: list[torch.nn.Module]
    optimizer: Any
    scheduler: Any
    operations: Operations
    base: Base | None = None
    """The weights beside which adapters are trained, where checkpoints do not hold them; null where they hold all."""


@dataclass(frozen=True)
class Update:
    """One attempted update, the same numbers on every rank."""

    loss: float | None
    """Mean over the supervised tokens of the global batch, in nats; null where there are none."""
    supervised_tokens: int
    flops: float
    """Floating point operations, over all ranks."""
    grad_norm: float | None
    """Of the whole gradient before clipping; not finite when the update was skipped for it, null without a loss."""
    applied: bool
    clipped: bool
    seconds: float
    stop_requested: bool
    """Some rank wants to stop after this update."""
    learning_rates: dict[str, float]
    loss_scale: float
    heads: ObservedHeads | None
    """Null where the update was skipped, and where nobody watches attention's logits."""


def train_step(trainer: Trainer, batches: Iterator[Batch], *, stop_requested: bool = False) -> Update:
    """Attempt one update of the model.

    Nothing is applied when the loss or the gradient is not finite, or when no token was to be learnt: such an update
    would still decay weights and move by old momentum.

    Raises:
        Diverged: the loss is not finite and `train.check_for_nan_in_loss` is on.
    """
    started = time.perf_counter()
    forget_logits(trainer.chunks)
    losses = forward_backward(trainer, batches, forward_only=False)
    whole = reduce_over_ranks(losses, stop_requested, trainer.device)
    loss = whole.loss
    if loss is not None and not math.isfinite(loss) and trainer.resolved.config.train.check_for_nan_in_loss:
        raise Diverged(
            f"the loss is {loss}, nothing was applied (train.check_for_nan_in_loss=false skips such updates)"
        )
    rates = learning_rates(trainer.optimizer)
    loss_scale = float(trainer.optimizer.get_loss_scale())
    applied, grad_norm = False, None
    if loss is not None:
        applied, grad_norm = apply_gradients(trainer, loss_is_finite=math.isfinite(loss))
    heads = clip_heads(trainer.chunks, trainer.optimizer) if applied else None
    trainer.device.synchronize()
    clip = trainer.resolved.config.optimizer.clip_grad
    return Update(
        loss=loss,
        supervised_tokens=whole.supervised_tokens,
        flops=trainer.operations.of(whole.positions, whole.squares),
        grad_norm=grad_norm,
        applied=applied,
        clipped=applied and grad_norm is not None and 0 < clip < grad_norm,
        seconds=time.perf_counter() - started,
        stop_requested=whole.stop_requested,
        learning_rates=rates,
        loss_scale=loss_scale,
        heads=heads,
    )


def forward_backward(trainer: Trainer, batches: Iterator[Batch], *, forward_only: bool) -> list[torch.Tensor]:
    """Run Megatron's schedule on one global batch; the last pipeline stage gets the logged vector of each."""
    from megatron.core.pipeline_parallel import get_forward_backward_func

    if not forward_only:
        for chunk in trainer.chunks:
            chunk.zero_grad_buffer()
        trainer.optimizer.zero_grad()
    config = trainer.resolved.config
    return get_forward_backward_func()(
        forward_step_func=forward_step,
        data_iterator=for_each_chunk(batches, len(trainer.chunks)),
        model=trainer.chunks if len(trainer.chunks) > 1 else trainer.chunks[0],
        num_microbatches=trainer.resolved.num_microbatches,
        # The shape that pipeline stages exchange, unless the model's variable_seq_lengths makes them tell each other.
        seq_length=row_length(config),
        micro_batch_size=config.train.micro_batch_size,
        forward_only=forward_only,
    )


@dataclass(frozen=True)
class GlobalBatch:
    """What came of a global batch, the same numbers on every rank."""

    loss: float | None
    """Mean over its supervised tokens, in nats; null where there are none."""
    supervised_tokens: int
    positions: float
    """Of all its rows as they were laid out, padding included."""
    squares: float
    """Sum of the squares of its sequences' lengths."""
    stop_requested: bool
    """Some rank wants to stop."""


def reduce_over_ranks(losses: list[torch.Tensor], stop_requested: bool, device: Device) -> GlobalBatch:
    """Sum what `language_model_loss` logged: one collective over all ranks.

    The last pipeline stage's first tensor parallel rank speaks for its data and context parallel shard. Adding the stop
    flags in the same collective is what makes all ranks stop after the same update.
    """
    from megatron.core import parallel_state

    totals = torch.zeros(5, dtype=torch.float64, device=device.torch_device)
    if losses and parallel_state.get_tensor_model_parallel_rank() == 0:
        totals[:4] = torch.stack(losses).sum(dim=0)
    totals[4] = float(stop_requested)
    torch.distributed.all_reduce(totals)
    loss_sum, tokens, positions, squares, stops = totals.tolist()
    return GlobalBatch(loss_sum / tokens if tokens else None, int(tokens), positions, squares, stops > 0)


def apply_gradients(trainer: Trainer, *, loss_is_finite: bool) -> tuple[bool, float]:
    """Clip and step, unless something is not finite; the schedule moves with applied updates only.

    Returns whether the update was applied, and the gradient norm before clipping (not finite if it was skipped).
    Megatron's own `optimizer.step()` would apply a gradient that is NaN in fp32, so its parts are called one by one.
    """
    optimizer, clip = trainer.optimizer, trainer.resolved.config.optimizer.clip_grad
    overflow = optimizer.prepare_grads()
    grad_norm = math.nan if overflow else float(optimizer.get_grad_norm())
    if overflow or not loss_is_finite or not math.isfinite(grad_norm):
        return False, grad_norm if not math.isfinite(grad_norm) else math.nan
    if clip > 0:
        clip_by_norm(optimizer, clip, grad_norm)
    optimizer.step_with_ready_grads()
    trainer.scheduler.step(increment=trainer.resolved.config.train.global_batch_size)
    return True, grad_norm


def clip_by_norm(optimizer: Any, limit: float, norm: float) -> None:
    """Scale every gradient of this rank by `limit / norm` where that is below one."""
    from megatron.core.optimizer.clip_grads import clip_grad_by_total_norm_fp32

    for part in getattr(optimizer, "chained_optimizers", [optimizer]):
        parameters = part.get_parameters()
        if parameters:
            # The precision-aware optimizer keeps its gradients beside the parameters' own.
            beside = getattr(part.config, "use_precision_aware_optimizer_no_fp8_or_ds_fp8", False)
            clip_grad_by_total_norm_fp32(parameters, max_norm=limit, total_norm=norm, use_decoupled_grad=beside)


def learning_rates(optimizer: Any) -> dict[str, float]:
    """The rate of each distinct kind of parameter group at this update; groups of one kind share it."""
    rates: dict[str, float] = {}
    for group in optimizer.param_groups:
        if group["params"]:
            rates.setdefault("default" if group.get("default_config", True) else "decoupled", float(group["lr"]))
    return rates or {"default": float(optimizer.param_groups[0]["lr"])}
