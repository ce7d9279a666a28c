"""Cross entropy over a vocabulary that is whole on this rank."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy in nats, float32 [...], of labels [...] under logits [..., vocabulary], which are overwritten.

    In place, since logits are the largest tensor of a step: fewer passes than torch's, and no collectives as in
    Megatron Core's, which is for a vocabulary split between ranks.
    """
    losses: Tensor = _CrossEntropy.apply(logits.float(), labels)
    return losses


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor) -> Tensor:
        labels = labels.unsqueeze(-1)
        largest = logits.amax(-1, keepdim=True)
        wanted = logits.gather(-1, labels)
        weights = logits.sub_(largest).exp_()
        total = weights.sum(-1, keepdim=True)
        ctx.save_for_backward(weights, total, labels)
        return (total.log() + largest - wanted).squeeze(-1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        weights, total, labels = ctx.saved_tensors
        gradient = gradients[0].unsqueeze(-1)
        return weights.mul_(gradient / total).scatter_add_(-1, labels, -gradient), None
