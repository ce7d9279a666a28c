"""The loss on held-out data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch

from trainwright.runner.batches import Batch
from trainwright.runner.step import forward_backward, reduce_over_ranks

if TYPE_CHECKING:
    from trainwright.runner.step import Trainer


def validate(
    trainer: Trainer, batches: Iterator[Batch], iterations: int, *, stop_requested: Callable[[], bool]
) -> float | None:
    """Mean token loss in nats over `iterations` global batches, the same on every rank; trains nothing.

    Null when some rank wants to stop (a validation may take longer than a job that has to go is given), and where no
    token of theirs counts.
    """
    total, tokens, stop = 0.0, 0, False
    for chunk in trainer.chunks:
        chunk.eval()
    with torch.no_grad():
        for _ in range(iterations):
            losses = forward_backward(trainer, batches, forward_only=True)
            whole = reduce_over_ranks(losses, stop_requested(), trainer.device)
            if whole.loss is not None:
                total, tokens = total + whole.loss * whole.supervised_tokens, tokens + whole.supervised_tokens
            stop = whole.stop_requested
            if stop:
                break
    for chunk in trainer.chunks:
        chunk.train()
    return None if stop or not tokens else total / tokens
