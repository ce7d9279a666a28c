"""`HybridModel` whose loss does not see the padding of the vocabulary."""

from __future__ import annotations

from typing import Any

import torch
from megatron.core.models.hybrid.hybrid_model import HybridModel
from torch import Tensor

from trainwright.runner.models.cross_entropy import cross_entropy


class LanguageModel(HybridModel):
    """`HybridModel` for a vocabulary of `tokens` tokens, padded to `vocab_size`.

    How far it is padded depends on the tensor parallel size. Megatron Core lets the padding take part in the softmax,
    so that the loss would depend on that size, and differ from the same weights' loss elsewhere.
    """

    def __init__(self, *args: Any, tokens: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tokens = tokens

    def compute_language_model_loss(self, labels: Tensor, logits: Tensor) -> Tensor:
        """Cross entropy in nats, [batch, sequence], of labels [batch, sequence].

        logits: [sequence, batch, this rank's part of the padded vocabulary]; those of padding are overwritten.
        """
        first = max(0, self.tokens - self.tp_group.rank() * logits.size(-1))
        if first < logits.size(-1):
            logits = _HidePadding.apply(logits, first)
        if self.tp_group.size() == 1 and not self.config.cross_entropy_loss_fusion:
            return cross_entropy(logits, labels.transpose(0, 1)).transpose(0, 1).contiguous()
        loss: Tensor = super().compute_language_model_loss(labels, logits)
        return loss

    def shared_embedding_or_output_weight(self) -> Tensor | None:
        """The embedding's weight, which a tied output layer multiplies with.

        Where both are on this stage and products add their gradients to `main_grad` themselves, the output layer gets
        the weight under another name: as a use of the parameter it would have to return a gradient of zeros to
        autograd, a tensor as large as the vocabulary for each micro-batch.
        """
        weight: Tensor | None = super().shared_embedding_or_output_weight()
        whole = self.pre_process and self.post_process and self.share_embeddings_and_output_weights
        if not (whole and self.training and self.config.gradient_accumulation_fusion and hasattr(weight, "main_grad")):
            return weight
        alias = weight.detach().requires_grad_()
        alias.main_grad = weight.main_grad
        return alias


class _HidePadding(torch.autograd.Function):
    """Set logits from a column on so low that their probability is exactly zero; so is its gradient then.

    In place, since logits are the largest tensor of a step. Not minus infinity, which kernels that take a part of the
    vocabulary at a time turn into NaN when all of the part is hidden.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, first: int) -> Tensor:
        ctx.mark_dirty(logits)
        logits[..., first:] = torch.finfo(logits.dtype).min / 2
        return logits

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None
