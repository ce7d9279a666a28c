"""Rules that families share: our names of a block's parameters, and where their rows come from.

Ours are names of a native checkpoint. There a norm bears the name that it has inside Transformer Engine's fused layers.
Block `i` is our layers `2 i` (attention) and `2 i + 1` (feed-forward).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainwright.recipes.config.model import ModelConfig
from trainwright.runner.huggingface.rules import Rule, Slot
from trainwright.runner.models.layer_pattern import LAYERS_PER_BLOCK

if TYPE_CHECKING:
    from torch import Tensor

EMBEDDING, OUTPUT = "embedding.word_embeddings.weight", "output_layer.weight"
VOCABULARY = frozenset({EMBEDDING, OUTPUT})
"""Ours with a row for each token, padded in a model."""


def same(ours: str, theirs: str, *shape: int) -> Rule:
    """One tensor under two names."""
    return Rule(Slot(ours, shape), (Slot(theirs, shape),))


def around_blocks(model: ModelConfig) -> list[Rule]:
    """Embedding, last norm, and the output layer where it has weights of its own."""
    vocabulary, hidden = int(model.vocab_size or 0), model.hidden_size
    rules = [
        same(EMBEDDING, "model.embed_tokens.weight", vocabulary, hidden),
        same("decoder.final_norm.weight", "model.norm.weight", hidden),
    ]
    if not model.share_embeddings_and_output_weights:
        rules.append(same(OUTPUT, "lm_head.weight", vocabulary, hidden))
    return rules


def attention(model: ModelConfig, block: int, *, output_bias: bool = False) -> list[Rule]:
    """Grouped-query attention with the norm before it."""
    ours, theirs = f"decoder.layers.{LAYERS_PER_BLOCK * block}.", f"model.layers.{block}."
    hidden, channels = model.hidden_size, int(model.kv_channels or 0)
    queries = model.num_attention_heads * channels
    rules = [
        same(ours + "self_attention.linear_qkv.layer_norm_weight", theirs + "input_layernorm.weight", hidden),
        _joined(model, ours, theirs, "weight", (hidden,)),
        same(ours + "self_attention.linear_proj.weight", theirs + "self_attn.o_proj.weight", hidden, queries),
    ]
    if model.add_qkv_bias or model.add_bias_linear:
        rules.append(_joined(model, ours, theirs, "bias", ()))
    if output_bias:
        rules.append(same(ours + "self_attention.linear_proj.bias", theirs + "self_attn.o_proj.bias", hidden))
    if model.qk_layernorm:
        for name in "qk":
            ours_norm, theirs_norm = f"self_attention.{name}_layernorm.weight", f"self_attn.{name}_norm.weight"
            rules.append(same(ours + ours_norm, theirs + theirs_norm, channels))
    return rules


def _joined(model: ModelConfig, ours: str, theirs: str, kind: str, columns: tuple[int, ...]) -> Rule:
    """Queries, keys and values in one, ordered by key/value group: the group's queries, its key, its value."""
    groups, channels = int(model.num_query_groups or 0), int(model.kv_channels or 0)
    queries, keys = model.num_attention_heads * channels, groups * channels

    def by_group(tensors: Sequence[Tensor]) -> list[Tensor]:
        return [part for group in zip(*(tensor.chunk(groups) for tensor in tensors), strict=True) for part in group]

    return Rule(
        Slot(f"{ours}self_attention.linear_qkv.{kind}", (queries + 2 * keys, *columns)),
        tuple(
            Slot(f"{theirs}self_attn.{name}_proj.{kind}", (rows, *columns))
            for name, rows in {"q": queries, "k": keys, "v": keys}.items()
        ),
        by_group,
    )


def feed_forward(model: ModelConfig, block: int) -> list[Rule]:
    """A dense gated unit with the norm before it: gate's rows, then the linear half's."""
    ours, theirs = f"decoder.layers.{LAYERS_PER_BLOCK * block + 1}.", f"model.layers.{block}."
    hidden, width = model.hidden_size, int(model.ffn_hidden_size or 0)
    return [
        same(ours + "mlp.linear_fc1.layer_norm_weight", theirs + "post_attention_layernorm.weight", hidden),
        *gated(ours + "mlp.", theirs + "mlp.", hidden, width),
    ]


def gated(ours: str, theirs: str, hidden: int, width: int) -> list[Rule]:
    """The matrices of a gated unit, without bias."""
    halves = tuple(Slot(f"{theirs}{name}_proj.weight", (width, hidden)) for name in ("gate", "up"))
    return [
        Rule(Slot(ours + "linear_fc1.weight", (2 * width, hidden)), halves),
        same(ours + "linear_fc2.weight", theirs + "down_proj.weight", hidden, width),
    ]


def dense_model(model: ModelConfig) -> list[Rule]:
    """Every weight of a model of Llama's shape."""
    blocks = range(model.num_layers)
    return [
        *around_blocks(model),
        *(rule for block in blocks for rule in (*attention(model, block), *feed_forward(model, block))),
    ]
