"""Core attention on PyTorch's fused `scaled_dot_product_attention`."""

from __future__ import annotations

import math
from contextlib import nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from megatron.core import tensor_parallel
from megatron.core.process_groups_config import ProcessGroupCollection
from megatron.core.transformer.enums import AttnMaskType
from megatron.core.transformer.module import MegatronModule
from megatron.core.transformer.utils import (
    ensure_metadata_has_dp_cp_group,
    is_layer_window_attention,
    make_sharded_tensors_for_checkpoint,
)
from torch import Tensor

from trainwright.runner.layout import Bounds, held_places
from trainwright.runner.models.attention_logits import largest_logits
from trainwright.runner.models.context_parallel import gather_row

if TYPE_CHECKING:
    from megatron.core.transformer import TransformerConfig


class SdpaAttention(MegatronModule):
    """Causal attention with grouped queries, a sliding window, sinks, dropout, packed rows and context parallelism.

    A sink is one more logit beside each row's, whose share of the softmax is lost: zero for every head
    (`softmax_type=off-by-one`), or a learnt `softmax_offset`, [heads of this tensor parallel rank] (`learnable`).

    The sequences of a packed row are attended one by one: none sees another, and the work is the sum of the squares of
    their lengths. Under context parallelism a rank keeps its queries and gathers keys and values of the whole row.
    """

    def __init__(
        self,
        config: TransformerConfig,
        layer_number: int,
        attn_mask_type: AttnMaskType,
        attention_type: str = "self",
        attention_dropout: float | None = None,
        softmax_scale: float | None = None,
        k_channels: int | None = None,
        v_channels: int | None = None,
        cp_comm_type: str | None = None,
        pg_collection: ProcessGroupCollection | None = None,
    ) -> None:
        super().__init__(config)
        if attn_mask_type != AttnMaskType.causal:
            raise ValueError(f"this attention is causal; a mask of type {attn_mask_type.name} is not supported")
        groups = pg_collection or ProcessGroupCollection.use_mpu_process_groups(required_pgs=["tp", "cp"])
        self.tp_group, self.cp_group = groups.tp, groups.cp
        self.dropout = config.attention_dropout if attention_dropout is None else attention_dropout
        self.scale = softmax_scale or 1.0 / math.sqrt(k_channels or config.kv_channels)
        windowed = is_layer_window_attention(config.window_size, config.window_attn_skip_freq, layer_number)
        self.window = config.window_size[0] if windowed else None
        self.softmax_offset = self._sinks(config.num_attention_heads // self.tp_group.size())
        self.watches_logits = config.qk_clip or config.log_max_attention_logit
        # Where Megatron Core's clipping looks for them: [heads of this tensor parallel rank], null before any.
        self.current_max_attn_logits: Tensor | None = None

    def _sinks(self, heads: int) -> Tensor | None:
        kind, config = self.config.softmax_type, self.config
        if kind == "vanilla":
            return None
        device = "cpu" if config.use_cpu_initialization else torch.get_default_device()
        sinks = torch.zeros(heads, dtype=config.params_dtype, device=device)
        if kind == "off-by-one":
            return sinks
        if config.perform_initialization:
            with tensor_parallel.get_cuda_rng_tracker().fork():  # heads of other ranks are others
                config.init_method(sinks)
        learnt = torch.nn.Parameter(sinks)
        tensor_parallel.set_tensor_model_parallel_attributes(learnt, is_parallel=True, dim=0, stride=1)
        return learnt

    def sharded_state_dict(
        self, prefix: str = "", sharded_offsets: tuple[Any, ...] = (), metadata: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Learnt sinks, split between tensor parallel ranks as heads are; else nothing."""
        metadata = ensure_metadata_has_dp_cp_group(metadata)
        sharded: dict[str, Any] = make_sharded_tensors_for_checkpoint(
            self.state_dict(keep_vars=True),
            prefix,
            {"softmax_offset": 0},
            sharded_offsets,
            tp_group=self.tp_group,
            dp_cp_group=metadata["dp_cp_group"],
        )
        return sharded

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

        query: [row, batch, heads, channels]; key, value: [row, batch, groups, channels], all of this rank's part of the
        row. Returns [row, batch, heads * channels]. Of packed rows, with `packed_seq_params.cu_seqlens_q` as the bounds
        of sequences in the whole row, there is no batch: [row, heads, channels] in, [row, 1, heads * channels] out.
        The mask is causal whatever `attention_mask` holds, as with Megatron Core's fused kernels.
        """
        if attention_bias is not None:
            raise ValueError("attention biases are not supported by this attention")
        ranks = self.cp_group.size()
        if packed_seq_params is not None:
            query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        bounds = _bounds(packed_seq_params, query.size(0) * ranks)
        if ranks > 1:
            key, value = (gather_row(x, bounds, self.cp_group) for x in (key, value))
        lengths = [end - begin for begin, end in pairwise(bounds)]
        # Under sequence parallelism the whole stack already draws from this rank's own stream.
        fork = self.training and self.dropout > 0 and not self.config.sequence_parallel
        with tensor_parallel.get_cuda_rng_tracker().fork() if fork else nullcontext():
            contexts = [
                self._attend(*sequence)
                for sequence in zip(
                    query.split([length // ranks for length in lengths]),
                    key.split(lengths),
                    value.split(lengths),
                    strict=True,
                )
            ]
        return torch.cat(contexts) if len(contexts) > 1 else contexts[0]

    def _attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """One sequence: this rank's queries, and all keys and values; shapes as in `forward`."""
        mask = self._mask(query.size(0), key.size(0), query.device)
        query, key, value = (x.permute(1, 2, 0, 3) for x in (query, key, value))
        if self.watches_logits and self.training:
            self._watch(largest_logits(query, key, self.scale, mask))
        width = value.size(-1)
        if width < key.size(-1):
            # The fused kernel wants one width; zeros more cost less than the kernel for two.
            value = F.pad(value, (0, key.size(-1) - width))
        if self.softmax_offset is not None:
            key, value, mask = self._with_sink(query, key, value, mask)
        context = F.scaled_dot_product_attention(
            query,
            # Each is read once for every query head of its group: worth a copy out of the joint projection.
            key.contiguous(),
            value.contiguous(),
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=mask is None,
            scale=self.scale,
            enable_gqa=query.size(1) != key.size(1),
        )
        return context[..., :width].permute(2, 0, 1, 3).flatten(2)

    def _watch(self, logits: Tensor) -> None:
        before = self.current_max_attn_logits
        self.current_max_attn_logits = logits if before is None else torch.maximum(before, logits)

    def _with_sink(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One more key and value of zeros, whose logit is the head's sink: the mask becomes what is added to logits.

        Tensors are [batch, heads or groups, row, channels], the mask that results [1, heads, queries, keys + 1].
        """
        queries, keys = query.size(2), key.size(2)
        if mask is None:
            mask = torch.ones(queries, keys, dtype=torch.bool, device=query.device).tril()
        seen = query.new_zeros(mask.shape).masked_fill(~mask, -math.inf)
        sinks = self.softmax_offset.to(query.dtype)[:, None, None].expand(-1, queries, 1)  # type: ignore[union-attr]
        added = torch.cat([seen.expand(sinks.size(0), -1, -1), sinks], dim=-1)
        return F.pad(key, (0, 0, 0, 1)), F.pad(value, (0, 0, 0, 1)), added[None]

    def _mask(self, queries: int, keys: int, device: torch.device) -> Tensor | None:
        """True where a query may look, [queries, keys]; None where plain causality says it all."""
        if self.window is None and queries == keys:
            return None
        at = held_places((0, keys), self.cp_group.rank(), self.cp_group.size()).to(device)[:, None]
        key = torch.arange(keys, device=device)[None, :]
        mask = key <= at
        return mask if self.window is None else mask & (key >= at - self.window)


def _bounds(packed: Any, length: int) -> Bounds:
    """Of the sequences in a row of `length` tokens over all context parallel ranks."""
    if packed is None:
        return (0, length)
    bounds = tuple(packed.cu_seqlens_q.tolist())
    if bounds[-1] != length:
        raise ValueError(f"a packed row of {length} tokens has sequences up to {bounds[-1]}")
    return bounds
