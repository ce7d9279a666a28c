"""From a micro-batch to a loss: what Megatron's schedules call for each forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import tee
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

# Shapes: B sequences of a micro-batch, S tokens of a sequence, C context parallel ranks.

Batch = dict[str, "Tensor"]


def slice_for_context_parallel(batch: Batch, rank: int, size: int) -> Batch:
    """This context parallel rank's part of every (B, S) tensor: (B, S / C).

    A sequence is cut into 2C equal pieces and rank r takes pieces r and 2C - 1 - r, so that under a causal mask every
    rank has the same amount of work. Megatron's rotary embedding and attention assume this order.
    """
    if size == 1:
        return batch
    return {
        name: torch.cat([(pieces := tensor.chunk(2 * size, dim=1))[rank], pieces[2 * size - 1 - rank]], dim=1)
        for name, tensor in batch.items()
    }


def microbatches(loader: Iterator[Batch], device: torch.device) -> Iterator[Batch]:
    """The loader's micro-batches, cut for context parallelism and on the device."""
    from megatron.core import parallel_state

    rank = parallel_state.get_context_parallel_rank()
    size = parallel_state.get_context_parallel_world_size()
    for batch in loader:
        yield {
            name: tensor.to(device, non_blocking=True)
            for name, tensor in slice_for_context_parallel(batch, rank, size).items()
        }


def for_each_chunk(batches: Iterator[Batch], chunks: int) -> Iterator[Batch] | list[Iterator[Batch]]:
    """What Megatron's schedules take: one iterator, or one for each model chunk of an interleaved pipeline."""
    return batches if chunks == 1 else list(tee(batches, chunks))


def forward_step(batches: Iterator[Batch], model: torch.nn.Module) -> tuple[Tensor, partial]:
    """Run the model on the next micro-batch; returns its output and the function that makes a loss of it."""
    batch = next(batches)
    output = model(batch["tokens"], batch["position_ids"], None, labels=batch["labels"])
    return output, partial(language_model_loss, batch["loss_mask"])


def language_model_loss(loss_mask: Tensor, losses: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sum of the token losses that count, how many those are, and both as one detached vector for logging.

    Args:
        loss_mask: (B, S), 1 where a token is learnt and 0 where not.
        losses: (B, S), cross entropy of each token in nats.

    The schedules divide: by tokens and micro-batches, or, with `model.calculate_per_token_loss`, by the tokens of the
    global batch after all gradients are summed.
    """
    mask = loss_mask.reshape(-1).float()
    total = torch.sum(losses.reshape(-1).float() * mask)
    tokens = mask.sum()
    return total, tokens.to(torch.int), torch.stack([total.detach(), tokens])
