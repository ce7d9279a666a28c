"""The loss on held-out data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from trainwright.runner.batches import Batch
from trainwright.runner.step import forward_backward, reduce_over_ranks

if TYPE_CHECKING:
    from trainwright.runner.step import Trainer


def validate(trainer: Trainer, batches: Iterator[Batch], iterations: int) -> float:
    """Mean token loss in nats over `iterations` global batches, the same on every rank; trains nothing."""
    losses: list[torch.Tensor] = []
    for chunk in trainer.chunks:
        chunk.eval()
    with torch.no_grad():
        for _ in range(iterations):
            losses += forward_backward(trainer, batches, forward_only=True)
    for chunk in trainer.chunks:
        chunk.train()
    return reduce_over_ranks(losses, False, trainer.device)[0]
