"""Heads that are clipped: one block's logits before and after, and a training whose clipping is broken on purpose."""

from collections.abc import Mapping
from typing import Any

import torch
from tests.runner.small_models import LLAMA, configuration, positions, start_groups, tokens
from tests.runner.training import train


def expected_logits(query: torch.Tensor, key: torch.Tensor, scale: float, visible: torch.Tensor) -> torch.Tensor:
    """The largest logit of each head, [heads], from all logits at once; shapes as in `largest_logits`."""
    heads = query.size(1) // key.size(1)
    logits = query @ key.repeat_interleave(heads, 1).transpose(-1, -2) * scale
    return logits.masked_fill(~visible, -torch.inf).amax(dim=(0, 2, 3))


def before_and_after(cases: Mapping[str, Mapping[str, Any]], **sections: Any) -> dict[str, tuple[Any, Any, Any, Any]]:
    """By case: the threshold, each head's largest logit before and after a clip of one block, and what was counted."""
    return {name: _before_and_after(changes, sections) for name, changes in cases.items()}


def _before_and_after(changes: Mapping[str, Any], sections: Mapping[str, Any]) -> tuple[Any, Any, Any, Any]:
    from megatron.core import parallel_state
    from megatron.core.utils import get_model_config
    from tests.runner.megatron_training import build

    from trainwright.runner.optim.qk_clip import _attentions, clip_heads

    # Alone, so that nothing before its queries and keys changes; wide, so that heads differ.
    model = LLAMA | {"num_layers": 1, "init_method_std": 0.3, "qk_clip": True, "qk_clip_alpha": 0.3} | changes
    config = configuration(model, **sections)
    start_groups(config)
    chunks, optimizer, _ = build(config, 200)
    for name, parameter in chunks[0].named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter.data)
    (attention,) = _attentions(chunks)
    ids = tokens()

    def logits() -> torch.Tensor:
        chunks[0](ids, positions(ids), None)
        return attention.core_attention.current_max_attn_logits.clone()

    before = logits()
    everywhere = [before] if parallel_state.get_tensor_model_parallel_world_size() == 1 else _gathered(before)
    # Half of the heads are above it.
    threshold = get_model_config(chunks[0]).qk_clip_threshold = torch.cat(everywhere).median().item()
    counted = clip_heads(chunks, optimizer)
    after = logits()
    parallel_state.destroy_model_parallel()
    return threshold, before.tolist(), after.tolist(), counted


def _gathered(values: torch.Tensor) -> list[torch.Tensor]:
    from megatron.core import parallel_state

    group = parallel_state.get_tensor_model_parallel_group()
    parts = [torch.empty_like(values) for _ in range(group.size())]
    torch.distributed.all_gather(parts, values, group)
    return parts


def train_with_logits_of_own_samples(world_size: int, *arguments: Any) -> int:
    """Data parallel ranks clip by the logits that they saw themselves."""
    from trainwright.runner.optim import qk_clip

    whole = qk_clip._observe

    def broken(attentions: Any, *rest: Any) -> Any:
        own = [part.core_attention.current_max_attn_logits.clone() for part in attentions]
        observed = whole(attentions, *rest)
        for part, row in zip(attentions, own, strict=True):
            part.core_attention.current_max_attn_logits = row
        return observed

    qk_clip._observe = broken
    return train(*arguments, world_size=world_size)
