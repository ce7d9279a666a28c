"""Clipping attention's logits after an update: QK-Clip of Kimi K2 (arXiv:2507.20534)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from megatron.core.transformer import TransformerConfig
    from torch import Tensor


@dataclass(frozen=True)
class ObservedHeads:
    """What the attention heads of the whole model did in one update, the same on every rank."""

    max_logit: float | None
    """The largest of all; null where no head was observed, or a logit is not finite."""
    clipped: int
    """Heads whose largest logit was above the threshold, before anything was clipped."""
    observed: int


def threshold(config: TransformerConfig) -> float | None:
    """Above which logits are clipped; null where they are not."""
    return config.qk_clip_threshold if config.qk_clip else None


def forget_logits(chunks: Sequence[torch.nn.Module]) -> None:
    """Begin anew to watch: what a skipped update or a validation left behind is of no update that was made."""
    if _watched(chunks):
        for attention in _attentions(chunks):
            attention.core_attention.current_max_attn_logits = None


def clip_heads(chunks: Sequence[torch.nn.Module], optimizer: Any) -> ObservedHeads | None:
    """Clip the heads that this update's micro-batches took above the threshold, to where they would have met it.

    Megatron Core scales the matrices of queries and keys (`SelfAttention.clip_qk`, `MLASelfAttention.clip_qk`): of
    multi-latent attention head by head, of grouped queries group by group, as a group has one key. Nothing is scaled
    with `log_max_attention_logit` alone. Returns null where nobody watches logits. Collective: every rank calls it.
    """
    from megatron.core.utils import get_model_config

    if not _watched(chunks):
        return None
    attentions = [part for part in _attentions(chunks) if part.core_attention.current_max_attn_logits is not None]
    limit = threshold(get_model_config(chunks[0]))
    observed = _observe(attentions, limit, next(chunks[0].parameters()).device)
    if limit is not None:
        with torch.no_grad():
            for attention in attentions:
                _clip(attention, limit, optimizer)
    forget_logits(chunks)
    return observed


def _watched(chunks: Sequence[torch.nn.Module]) -> bool:
    from megatron.core.utils import get_model_config

    config = get_model_config(chunks[0])
    return bool(config.qk_clip or config.log_max_attention_logit)


def _attentions(chunks: Sequence[torch.nn.Module]) -> Iterator[Any]:
    """Every self-attention of this rank, those of further predictions too; Megatron Core's own loop leaves them out."""
    for chunk in chunks:
        for part in chunk.modules():
            if hasattr(getattr(part, "core_attention", None), "current_max_attn_logits"):
                yield part


def _observe(attentions: Sequence[Any], limit: float | None, device: torch.device) -> ObservedHeads:
    """Make each layer's logits the same on all ranks that hold it, and count over the model.

    Data and context parallel ranks saw other tokens with the same heads; tensor and pipeline parallel ranks have
    other heads.
    """
    from megatron.core import parallel_state

    totals = torch.tensor([-math.inf, 0.0, 0.0], dtype=torch.float64, device=device)
    if attentions:
        logits = torch.stack([part.core_attention.current_max_attn_logits for part in attentions])
        torch.distributed.all_reduce(
            logits,
            op=torch.distributed.ReduceOp.MAX,
            group=parallel_state.get_data_parallel_group(with_context_parallel=True),
        )
        for part, row in zip(attentions, logits, strict=True):
            part.core_attention.current_max_attn_logits = row
        totals[0], totals[2] = logits.max(), logits.numel()
        if limit is not None:
            totals[1] = (logits > limit).sum()
    group = parallel_state.get_model_parallel_group()
    torch.distributed.all_reduce(totals[:1], op=torch.distributed.ReduceOp.MAX, group=group)
    torch.distributed.all_reduce(totals[1:], group=group)
    largest, clipped, observed = totals.tolist()
    return ObservedHeads(largest if math.isfinite(largest) else None, int(clipped), int(observed))


def _clip(attention: Any, limit: float, optimizer: Any) -> None:
    """Megatron Core's clipping, and the parts that it leaves out: biases, and masters that are split between ranks."""
    core = attention.core_attention
    exceeded = bool((core.current_max_attn_logits > limit).any())
    # Megatron Core divides by it, also for a head whose logits are all negative.
    core.current_max_attn_logits = core.current_max_attn_logits.clamp(min=limit)
    with _own_sizes(attention), _without_split_masters(attention):
        attention.clip_qk()
    if not exceeded:
        return
    with _own_sizes(attention):
        for weight, scale in _scaled(attention):
            _clip_the_rest(weight, scale, optimizer)


def _clip_the_rest(weight: Any, scale: Callable[[Tensor], Any], optimizer: Any) -> None:
    master = getattr(weight, "main_param", None)
    if weight.dim() == 1:
        scale(weight.data)
        if master is not None and not _is_split(weight):
            scale(master.data)
    if master is not None and _is_split(weight):
        factors = torch.ones(weight.shape, dtype=torch.float32, device=weight.device)
        scale(factors)
        held = _held_range(weight, optimizer)
        master.data.mul_(factors.view(-1)[held.start : held.end].view_as(master))


def _scaled(attention: Any) -> Iterator[tuple[Any, Callable[[Tensor], Any]]]:
    """Parameters that queries and keys come from, and what scales a tensor of their shape in place."""
    from megatron.core.transformer.multi_latent_attention import MLASelfAttention

    if isinstance(attention, MLASelfAttention):
        queries = attention.linear_q_proj if attention.config.q_lora_rank is None else attention.linear_q_up_proj
        layers = (
            (queries, attention._clip_q_proj_weight),
            (attention.linear_kv_up_proj, attention._clip_kv_proj_weight),
        )
    else:
        layers = ((attention.linear_qkv, attention._clip_linear_qkv),)
    for layer, scale in layers:
        for weight in (layer.weight, getattr(layer, "bias", None)):
            if isinstance(weight, torch.nn.Parameter) and weight.numel():
                yield weight, scale


@contextmanager
def _own_sizes(attention: Any) -> Iterator[None]:
    """Megatron Core's clipping of grouped queries reads the sizes of the whole model for those of this rank's part."""
    names = ("query_projection_size", "kv_projection_size")
    whole = {name: getattr(attention, name) for name in names if hasattr(attention, name)}
    for name, size in whole.items():
        setattr(attention, name, size // attention.pg_collection.tp.size())
    try:
        yield
    finally:
        for name, size in whole.items():
            setattr(attention, name, size)


def _is_split(weight: Any) -> bool:
    """Whether the distributed optimizer keeps its master, of which this rank has a part or nothing."""
    return bool(getattr(weight, "main_param_sharded", False))


@contextmanager
def _without_split_masters(attention: Any) -> Iterator[None]:
    """Megatron Core would take a part for the whole matrix."""
    masters = {weight: weight.main_param for weight, _ in _scaled(attention) if _is_split(weight)}
    for weight in masters:
        del weight.main_param
    try:
        yield
    finally:
        for weight, master in masters.items():
            weight.main_param = master


def _held_range(weight: Any, optimizer: Any) -> Any:
    """Which elements of the flattened weight this rank's distributed optimizer keeps."""
    for part in getattr(optimizer, "chained_optimizers", [optimizer]):
        if weight in getattr(part, "model_param_gbuf_map", {}):
            return part._get_model_param_range_map(weight)["param"]
    raise LookupError("a weight's master is split, but no distributed optimizer has it")
