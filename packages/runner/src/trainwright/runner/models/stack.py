"""The stack of layers between embedding and output."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from megatron.core import tensor_parallel
from megatron.core.models.hybrid.hybrid_block import HybridStack
from torch import Tensor


class Stack(HybridStack):
    """`HybridStack` with a final norm of choice, and with random streams that know sequence parallelism.

    Its own final norm is Transformer Engine's and nothing else. And under sequence parallelism it draws dropout from
    the stream that tensor parallel ranks share, although they hold different parts of the sequence: every part would
    get the same mask.
    """

    def __init__(self, *args: Any, final_norm: Callable[..., Any], **kwargs: Any) -> None:
        super().__init__(*args, post_layer_norm=False, **kwargs)
        if self.post_process:
            self.final_norm = final_norm(
                config=self.config, hidden_size=self.config.hidden_size, eps=self.config.layernorm_epsilon
            )

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Shapes as in `HybridStack`: [sequence, batch, hidden] in and out."""
        split = self.config.sequence_parallel
        with tensor_parallel.get_cuda_rng_tracker().fork() if split else nullcontext():
            hidden_states: Tensor = super().forward(*args, **kwargs)
        return self.final_norm(hidden_states) if self.post_process else hidden_states
