"""Core attention on PyTorch's fused `scaled_dot_product_attention`."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from megatron.core import tensor_parallel
from megatron.core.process_groups_config import ProcessGroupCollection
from megatron.core.transformer.enums import AttnMaskType
from megatron.core.transformer.utils import is_layer_window_attention
from torch import Tensor

from trainwright.runner.models.context_parallel import gather_sequence, local_positions

if TYPE_CHECKING:
    from megatron.core.transformer import TransformerConfig


class SdpaAttention(torch.nn.Module):
    """Causal attention with grouped queries, a sliding window, dropout and context parallelism.

    Under context parallelism a rank keeps its queries and gathers keys and values of the whole sequence.
    """

    def __init__(
        self,
        config: TransformerConfig,
        layer_number: int,
        attn_mask_type: AttnMaskType,
        attention_type: str = "self",
        attention_dropout: float | None = None,
        softmax_scale: float | None = None,
        cp_comm_type: str | None = None,
        pg_collection: ProcessGroupCollection | None = None,
    ) -> None:
        super().__init__()
        if attn_mask_type != AttnMaskType.causal:
            raise ValueError(f"this attention is causal; a mask of type {attn_mask_type.name} is not supported")
        if config.softmax_type != "vanilla":
            raise ValueError(f"attention sinks (softmax_type {config.softmax_type}) are not supported here")
        groups = pg_collection or ProcessGroupCollection.use_mpu_process_groups(required_pgs=["tp", "cp"])
        self.config = config
        self.cp_group = groups.cp
        self.dropout = config.attention_dropout if attention_dropout is None else attention_dropout
        self.scale = softmax_scale or 1.0 / math.sqrt(config.kv_channels)
        windowed = is_layer_window_attention(config.window_size, config.window_attn_skip_freq, layer_number)
        self.window = config.window_size[0] if windowed else None

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        /,
        attn_mask_type: AttnMaskType | None = None,
        attention_bias: Tensor | None = None,
        packed_seq_params: Any = None,
    ) -> Tensor:
        """Attend.

        query: [sequence, batch, heads, channels]; key, value: [sequence, batch, groups, channels], all of this rank's
        part of the sequence. Returns [sequence, batch, heads * channels]. The mask is causal whatever
        `attention_mask` holds, as with Megatron Core's fused kernels.
        """
        if packed_seq_params is not None or attention_bias is not None:
            raise ValueError("packed sequences and attention biases are not supported by this attention")
        mask = self._mask(query)
        if self.cp_group.size() > 1:
            key, value = gather_sequence(key, self.cp_group), gather_sequence(value, self.cp_group)
        query, key, value = (x.permute(1, 2, 0, 3) for x in (query, key, value))
        # Each is read once for every query head of its group: worth a copy out of the joint projection.
        key, value = key.contiguous(), value.contiguous()
        dropout = self.dropout if self.training else 0.0
        # Under sequence parallelism the whole stack already draws from this rank's own stream.
        fork = dropout > 0 and not self.config.sequence_parallel
        with tensor_parallel.get_cuda_rng_tracker().fork() if fork else nullcontext():
            context = F.scaled_dot_product_attention(
                query,
                key,
                value,
                attn_mask=mask,
                dropout_p=dropout,
                is_causal=mask is None,
                scale=self.scale,
                enable_gqa=query.size(1) != key.size(1),
            )
        return context.permute(2, 0, 1, 3).flatten(2)

    def _mask(self, query: Tensor) -> Tensor | None:
        """True where a query may look, [queries, keys]; None where plain causality says it all."""
        if self.window is None and self.cp_group.size() == 1:
            return None
        queries = local_positions(query.size(0), self.cp_group, query.device)[:, None]
        keys = torch.arange(query.size(0) * self.cp_group.size(), device=query.device)[None, :]
        mask = keys <= queries
        return mask if self.window is None else mask & (keys >= queries - self.window)
