"""Multi-latent attention whose down projections are whole on every tensor parallel rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from megatron.core.transformer.multi_latent_attention import MLASelfAttention
from torch import Tensor

from trainwright.runner.models.norm import Norm

if TYPE_CHECKING:
    from megatron.core.transformer import MLATransformerConfig


class LatentAttention(MLASelfAttention):
    """`MLASelfAttention` without Transformer Engine, for any tensor parallel size.

    Megatron Core's own linear layer would split the latents between tensor parallel ranks and gather them, and leave
    the gradient of the one rotated key that all heads share to the heads of each rank.
    """

    def __init__(self, config: MLATransformerConfig, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        # In place of the layers that Megatron Core insists on.
        shared_key = config.qk_pos_emb_head_dim
        self.linear_kv_down_proj = WholeLinear(config, config.kv_lora_rank + shared_key)
        if config.q_lora_rank is not None:
            self.linear_q_down_proj = WholeLinear(config, config.q_lora_rank)

    def _resolve_qk_norm_config(self, submodules: Any) -> dict[str, Any]:
        """Which class stands where. Megatron Core's answer asks for Transformer Engine where queries have no latent."""
        names = ("linear_q_proj", "linear_q_up_proj", "linear_kv_up_proj", "q_layernorm", "kv_layernorm")
        return {name: getattr(submodules, name) for name in names}

    def _run_core_attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        packed_seq_params: Any = None,
        **others: Any,
    ) -> Tensor:
        """Without Megatron Core's padding of values in packed rows: our attention takes them as they are."""
        context: Tensor = self.core_attention(
            query, key, value, attention_mask, packed_seq_params=packed_seq_params, **others
        )
        return context


class TransformerEngineLatentAttention(MLASelfAttention):
    """`MLASelfAttention` that leaves queries alone where they come from one full matrix.

    Megatron Core would normalize the hidden states a second time before that matrix, which no published model does.
    """

    def _resolve_qk_norm_config(self, submodules: Any) -> dict[str, Any]:
        resolved: dict[str, Any] = super()._resolve_qk_norm_config(submodules)
        if self.config.q_lora_rank is None:
            resolved["linear_q_proj"] = submodules.linear_q_proj
        return resolved


class LatentNorm(Norm):
    """The norm of a latent. Its epsilon is 1e-6 whatever the model's is, as in DeepSeek's published code."""

    def __init__(self, config: MLATransformerConfig, hidden_size: int, eps: float) -> None:
        super().__init__(config, hidden_size, 1e-6)


class WholeLinear(torch.nn.Module):
    """A linear layer without bias that every tensor parallel rank has whole.

    Under sequence parallelism each rank applies it to its own part of the sequence, so its gradients are partial sums;
    `sequence_parallel` on the parameter tells Megatron Core to add them up.
    """

    def __init__(self, config: MLATransformerConfig, width: int) -> None:
        super().__init__()
        weight = torch.empty(width, config.hidden_size, dtype=config.params_dtype)
        initialize: Callable[[Tensor], Any] | None = config.init_method
        if config.perform_initialization and initialize is not None:
            initialize(weight)  # from the stream that tensor parallel ranks share
        self.weight = torch.nn.Parameter(weight)
        self.weight.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """[..., hidden] to [..., width]; the second is the bias that Megatron Core's layers leave to their callers."""
        return F.linear(x, self.weight), None
