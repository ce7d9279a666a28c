"""Widths, heads, experts, vocabulary: small, with the ratios that decide which code runs."""

import math

from trainwright.recipes.shrink.smaller import Smaller

HIDDEN, FEED_FORWARD, EXPERT, HEAD, LATENT, ROTATED = 64, 128, 64, 16, 32, 8
"""Channels of the residual stream, a feed-forward part, an expert, a head, a latent, and a head's rotated part."""
EXPERTS, TOPK, GROUPS, GROUP_TOPK = 8, 2, 4, 2
VOCABULARY = 512
ADAPTER = 4
"""Rank of an adapter."""


def widths(smaller: Smaller) -> None:
    """Hidden size, feed-forward parts, latents and adapters, each a multiple of what splits it."""
    model, grid = smaller.full.config.model, smaller.grid
    smaller.fewer("model.hidden_size", HIDDEN, grid.tensor)
    smaller.fewer("model.ffn_hidden_size", FEED_FORWARD, math.lcm(grid.tensor, grid.expert_tensor))
    smaller.fewer("model.moe_ffn_hidden_size", EXPERT, grid.expert_tensor)
    if model.moe_shared_expert_intermediate_size is not None:
        times = max(1, model.moe_shared_expert_intermediate_size // (model.moe_ffn_hidden_size or 1))
        smaller.fewer("model.moe_shared_expert_intermediate_size", EXPERT * times, grid.tensor)
    smaller.say(
        "widths",
        smaller.change("model.hidden_size", of="hidden"),
        smaller.change("model.ffn_hidden_size", of="feed-forward"),
        smaller.change("model.moe_ffn_hidden_size", of="expert") if model.num_moe_experts else "",
        smaller.change("model.moe_shared_expert_intermediate_size", of="shared experts"),
    )


def heads(smaller: Smaller) -> None:
    """Few heads, as many for each key/value head as before, and narrow; at least one on every tensor parallel rank."""
    model, tensor = smaller.full.config.model, smaller.grid.tensor
    groups = model.num_query_groups or model.num_attention_heads
    ratio = model.num_attention_heads // groups
    # Fewer key/value heads than tensor parallel ranks are repeated on them, if they divide the number of ranks.
    few = 1 if groups < model.tensor_model_parallel_size and ratio % tensor == 0 else math.lcm(min(groups, 2), tensor)
    smaller.put("model.num_query_groups", few)
    smaller.put("model.num_attention_heads", few * ratio)
    for path, width in (
        ("kv_channels", HEAD),
        ("qk_head_dim", HEAD),
        ("v_head_dim", HEAD),
        ("qk_pos_emb_head_dim", ROTATED),
        ("q_lora_rank", LATENT),
        ("kv_lora_rank", LATENT),
    ):
        smaller.fewer(f"model.{path}", width)
    shared = f"{ratio} for each key/value head as before" if ratio > 1 else ""
    smaller.say(
        "heads",
        smaller.change("model.num_attention_heads"),
        shared,
        smaller.change("model.kv_channels", of="width"),
        smaller.change("model.q_lora_rank", "model.kv_lora_rank", of="latents of queries and keys"),
        smaller.change(
            *(f"model.{name}" for name in ("qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim")), of="widths"
        ),
    )


def experts(smaller: Smaller) -> None:
    """Few experts, still more than a token chooses, in groups where there are groups, as many on every rank."""
    model = smaller.full.config.model
    if model.num_moe_experts is None:
        return
    groups = 1
    if model.moe_router_num_groups is not None and model.moe_router_group_topk is not None:
        chosen = min(model.moe_router_group_topk, GROUP_TOPK)
        groups = min(model.moe_router_num_groups, GROUPS if model.moe_router_num_groups > chosen else chosen)
        smaller.put("model.moe_router_group_topk", chosen)
        smaller.put("model.moe_router_num_groups", groups)
    smaller.fewer("model.moe_router_topk", TOPK)
    smaller.fewer("model.num_moe_experts", EXPERTS, math.lcm(groups, smaller.grid.experts))
    smaller.say(
        "experts",
        smaller.change("model.num_moe_experts"),
        smaller.change("model.moe_router_topk", of="chosen by a token"),
        smaller.change("model.moe_router_num_groups", "model.moe_router_group_topk", of="groups and chosen groups"),
    )


def vocabulary(smaller: Smaller) -> None:
    """Few tokens where they are only counted; a tokenizer that reads text keeps its own."""
    if smaller["tokenizer.tokenizer_type"] == "NullTokenizer" and smaller["dataset.kind"] == "mock":
        smaller.fewer("tokenizer.vocab_size", VOCABULARY)
        smaller.put("model.vocab_size", smaller["tokenizer.vocab_size"])
        smaller.say("vocabulary", smaller.change("model.vocab_size") or f"{smaller['model.vocab_size']} tokens")


def adapters(smaller: Smaller) -> None:
    """Adapters of a small rank, with the scale that alpha and rank had."""
    if smaller.full.config.model_dump().get("peft") is None:
        return
    dim, alpha = smaller["peft.dim"], smaller["peft.alpha"]
    smaller.fewer("peft.dim", ADAPTER)
    smaller.put("peft.alpha", alpha * smaller["peft.dim"] / dim)
    smaller.say("adapters", smaller.change("peft.dim", of="rank"))


def window(smaller: Smaller) -> None:
    """A sliding window that is still shorter than the sequence."""
    if smaller.full.config.model.window_size is not None:
        left = smaller.full.config.model.window_size[0]
        smaller.put("model.window_size", [min(left, smaller["dataset.seq_length"] // 4 - 1), 0])
        smaller.say("window", smaller.change("model.window_size"))
