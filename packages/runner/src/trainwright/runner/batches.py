"""From a micro-batch to a loss: what Megatron's schedules call for each forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import tee
from typing import TYPE_CHECKING

import torch

from trainwright.runner.layout import held_places

if TYPE_CHECKING:
    from megatron.core.packed_seq_params import PackedSeqParams
    from torch import Tensor

# Shapes: B sequences of a micro-batch, S tokens of a sequence, C context parallel ranks. A packed micro-batch is one
# row of T tokens, B = 1 and S = T, with the bounds of its sequences as `cu_seqlens` (0, ..., T), int32.

Batch = dict[str, "Tensor"]

OF_A_ROW = ("cu_seqlens", "max_seqlen")
"""What a packed batch tells of the whole row, the same on every context parallel rank."""


def slice_for_context_parallel(batch: Batch, rank: int, size: int) -> Batch:
    """This context parallel rank's part of every (B, S) tensor: (B, S / C), cut as `layout.held_places` says."""
    if size == 1:
        return batch
    length = next(tensor.size(1) for name, tensor in batch.items() if name not in OF_A_ROW)
    bounds = tuple(batch["cu_seqlens"].tolist()) if "cu_seqlens" in batch else (0, length)
    held = held_places(bounds, rank, size)
    return {name: tensor if name in OF_A_ROW else tensor[:, held] for name, tensor in batch.items()}


def microbatches(loader: Iterator[Batch], device: torch.device) -> Iterator[Batch]:
    """The loader's micro-batches, cut for context parallelism and on the device."""
    from megatron.core import parallel_state

    rank = parallel_state.get_context_parallel_rank()
    size = parallel_state.get_context_parallel_world_size()
    for batch in loader:
        yield {
            # The host reads it to size what the device does, and would wait for the device if it were there.
            name: tensor if name == "max_seqlen" else tensor.to(device, non_blocking=True)
            for name, tensor in slice_for_context_parallel(batch, rank, size).items()
        }


def for_each_chunk(batches: Iterator[Batch], chunks: int) -> Iterator[Batch] | list[Iterator[Batch]]:
    """What Megatron's schedules take: one iterator, or one for each model chunk of an interleaved pipeline."""
    return batches if chunks == 1 else list(tee(batches, chunks))


def forward_step(batches: Iterator[Batch], model: torch.nn.Module) -> tuple[Tensor, partial]:
    """Run the model on the next micro-batch; returns its output and the function that makes a loss of it."""
    from megatron.core import parallel_state

    batch = next(batches)
    output = model(
        batch["tokens"],
        batch["position_ids"],
        None,
        labels=batch["labels"],
        loss_mask=batch["loss_mask"],  # for the further tokens of multi-token prediction
        packed_seq_params=packed_sequences(batch),
    )
    work = work_of(batch, parallel_state.get_context_parallel_world_size())
    return output, partial(language_model_loss, batch["loss_mask"], work)


def packed_sequences(batch: Batch) -> PackedSeqParams | None:
    """What Megatron Core's layers need to know of a packed row; null for one sequence a row.

    Padding is part of the sequence before it, or a sequence of its own: bounds with and without it are the same.
    """
    if "cu_seqlens" not in batch:
        return None
    from megatron.core.packed_seq_params import PackedSeqParams

    bounds, longest = batch["cu_seqlens"], int(batch["max_seqlen"])
    return PackedSeqParams(
        qkv_format="thd", cu_seqlens_q=bounds, cu_seqlens_kv=bounds, max_seqlen_q=longest, max_seqlen_kv=longest
    )


def work_of(batch: Batch, size: int) -> Tensor:
    """This rank's share of a micro-batch's work, float64 [2]: positions, and the squares of the sequences' lengths.

    Each of the `size` context parallel ranks that share the micro-batch has an equal part of both.
    """
    rows, held = batch["tokens"].shape
    if "cu_seqlens" in batch:
        lengths = batch["cu_seqlens"].double().diff()
    else:
        lengths = torch.full((rows,), held * size, dtype=torch.float64, device=batch["tokens"].device)
    return torch.stack([lengths.sum(), lengths.square().sum()]) / size


def language_model_loss(loss_mask: Tensor, work: Tensor, losses: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sum of the token losses that count, how many those are, and, for logging, both and the work as one vector.

    Args:
        loss_mask: (B, S), 1 where a token is learnt and 0 where not.
        work: as `work_of` gives it.
        losses: (B, S), cross entropy of each token in nats.

    The schedules divide: by tokens and micro-batches, or, with `model.calculate_per_token_loss`, by the tokens of the
    global batch after all gradients are summed.
    """
    mask = loss_mask.reshape(-1).float()
    total = torch.sum(losses.reshape(-1).float() * mask)
    tokens = mask.sum()
    return total, tokens.to(torch.int), torch.cat([torch.stack([total.detach(), tokens]).double(), work])
