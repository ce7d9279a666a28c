"""Rules that families share: our names of a block's parameters, and where their rows come from.

Ours are names of a native checkpoint. There some norms bear the name that they have inside Transformer Engine's fused
layers, and the experts of a layer are one tensor, stacked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainwright.recipes.config.model import ModelConfig
from trainwright.runner.huggingface.rules import Rule, Slot
from trainwright.runner.models.layer_pattern import LAYERS_PER_BLOCK

if TYPE_CHECKING:
    from torch import Tensor

EMBEDDING, OUTPUT = "embedding.word_embeddings.weight", "output_layer.weight"
VOCABULARY = frozenset({EMBEDDING, OUTPUT})
"""Ours with a row for each token, padded in a model."""
THEIR_EMBEDDING, THEIR_OUTPUT = "model.embed_tokens.weight", "lm_head.weight"


@dataclass(frozen=True)
class Block:
    """How names of one block begin."""

    attention: str
    """Ours of the attention layer."""
    feed_forward: str
    """Ours of the layer after it."""
    theirs: str


def block_at(number: int) -> Block:
    """Block `number` of the decoder."""
    first = LAYERS_PER_BLOCK * number
    return Block(f"decoder.layers.{first}.", f"decoder.layers.{first + 1}.", f"model.layers.{number}.")


def same(ours: str, theirs: str, *shape: int) -> Rule:
    """One tensor under two names."""
    return Rule(Slot(ours, shape), (Slot(theirs, shape),))


def around_blocks(model: ModelConfig) -> list[Rule]:
    """Embedding, last norm, and the output layer where it has weights of its own."""
    vocabulary, hidden = int(model.vocab_size or 0), model.hidden_size
    rules = [
        same(EMBEDDING, THEIR_EMBEDDING, vocabulary, hidden),
        same("decoder.final_norm.weight", "model.norm.weight", hidden),
    ]
    if not model.share_embeddings_and_output_weights:
        rules.append(same(OUTPUT, THEIR_OUTPUT, vocabulary, hidden))
    return rules


def attention(model: ModelConfig, block: Block) -> list[Rule]:
    """Grouped-query attention with the norm before it."""
    ours, theirs = block.attention, block.theirs
    hidden, channels = model.hidden_size, int(model.kv_channels or 0)
    queries = model.num_attention_heads * channels
    rules = [
        same(ours + "self_attention.linear_qkv.layer_norm_weight", theirs + "input_layernorm.weight", hidden),
        _joined(model, block, "weight", (hidden,)),
        same(ours + "self_attention.linear_proj.weight", theirs + "self_attn.o_proj.weight", hidden, queries),
    ]
    if model.add_qkv_bias or model.add_bias_linear:
        rules.append(_joined(model, block, "bias", ()))
    if model.add_bias_linear:
        rules.append(same(ours + "self_attention.linear_proj.bias", theirs + "self_attn.o_proj.bias", hidden))
    if model.qk_layernorm:
        for name in "qk":
            ours_norm, theirs_norm = f"self_attention.{name}_layernorm.weight", f"self_attn.{name}_norm.weight"
            rules.append(same(ours + ours_norm, theirs + theirs_norm, channels))
    return rules


def _joined(model: ModelConfig, block: Block, kind: str, columns: tuple[int, ...]) -> Rule:
    """Queries, keys and values in one, ordered by key/value group: the group's queries, its key, its value."""
    groups, channels = int(model.num_query_groups or 0), int(model.kv_channels or 0)
    queries, keys = model.num_attention_heads * channels, groups * channels

    def by_group(tensors: Sequence[Tensor]) -> list[Tensor]:
        return [part for group in zip(*(tensor.chunk(groups) for tensor in tensors), strict=True) for part in group]

    return Rule(
        Slot(f"{block.attention}self_attention.linear_qkv.{kind}", (queries + 2 * keys, *columns)),
        tuple(
            Slot(f"{block.theirs}self_attn.{name}_proj.{kind}", (rows, *columns))
            for name, rows in {"q": queries, "k": keys, "v": keys}.items()
        ),
        by_group,
    )


def feed_forward(model: ModelConfig, block: Block) -> list[Rule]:
    """A dense gated unit with the norm before it: gate's rows, then the linear half's."""
    ours, theirs = block.feed_forward, block.theirs
    norm = same(
        ours + "mlp.linear_fc1.layer_norm_weight", theirs + "post_attention_layernorm.weight", model.hidden_size
    )
    return [norm, *gated(ours + "mlp.", theirs + "mlp.", model.hidden_size, int(model.ffn_hidden_size or 0))]


def gated(
    ours: str, theirs: str, hidden: int, width: int, *, index: int | None = None, count: int | None = None
) -> list[Rule]:
    """The matrices of a gated unit, without bias; `index` where ours are one of `count` in a stack."""
    halves = tuple(Slot(f"{theirs}{name}_proj.weight", (width, hidden)) for name in ("gate", "up"))
    return [
        Rule(Slot(ours + "linear_fc1.weight", (2 * width, hidden), index, count), halves),
        Rule(
            Slot(ours + "linear_fc2.weight", (hidden, width), index, count),
            (Slot(theirs + "down_proj.weight", (hidden, width)),),
        ),
    ]


def experts(model: ModelConfig, block: Block) -> list[Rule]:
    """A mixture of experts, each a gated unit of its own names, with the norm and the router before them."""
    ours, theirs = block.feed_forward, block.theirs
    hidden, count = model.hidden_size, int(model.num_moe_experts or 0)
    width, shared = int(model.moe_ffn_hidden_size or 0), model.moe_shared_expert_intermediate_size
    rules = router(model, block, "mlp.gate")
    for number in range(count):
        theirs_expert = f"{theirs}mlp.experts.{number}."
        rules += gated(ours + "mlp.experts.experts.", theirs_expert, hidden, width, index=number, count=count)
    if model.moe_router_enable_expert_bias:
        rules.append(same(ours + "mlp.router.expert_bias", theirs + "mlp.gate.e_score_correction_bias", count))
    if shared is not None:
        rules += gated(ours + "mlp.shared_experts.", theirs + "mlp.shared_experts.", hidden, shared)
    return rules


def router(model: ModelConfig, block: Block, name: str) -> list[Rule]:
    """The norm before a mixture of experts and the matrix that chooses them, called `name` by them."""
    hidden, count = model.hidden_size, int(model.num_moe_experts or 0)
    return [
        same(block.feed_forward + "pre_mlp_layernorm.weight", block.theirs + "post_attention_layernorm.weight", hidden),
        same(block.feed_forward + "mlp.router.weight", f"{block.theirs}{name}.weight", count, hidden),
    ]


def latent_attention(model: ModelConfig, block: Block) -> list[Rule]:
    """Multi-latent attention with the norm before it; matrices are laid out alike on both sides."""
    ours, theirs = block.attention + "self_attention.", block.theirs + "self_attn."
    hidden, heads = model.hidden_size, model.num_attention_heads
    plain, rotated, value = (
        int(size or 0) for size in (model.qk_head_dim, model.qk_pos_emb_head_dim, model.v_head_dim)
    )
    of_keys, of_queries = int(model.kv_lora_rank or 0), model.q_lora_rank
    queries = heads * (plain + rotated)
    rules = [
        same(block.attention + "input_layernorm.weight", block.theirs + "input_layernorm.weight", hidden),
        same(ours + "linear_kv_down_proj.weight", theirs + "kv_a_proj_with_mqa.weight", of_keys + rotated, hidden),
        same(ours + "kv_layernorm.weight", theirs + "kv_a_layernorm.weight", of_keys),
        same(ours + "linear_kv_up_proj.weight", theirs + "kv_b_proj.weight", heads * (plain + value), of_keys),
        same(ours + "linear_proj.weight", theirs + "o_proj.weight", hidden, heads * value),
    ]
    if of_queries is None:
        return [*rules, same(ours + "linear_q_proj.weight", theirs + "q_proj.weight", queries, hidden)]
    return [
        *rules,
        same(ours + "linear_q_down_proj.weight", theirs + "q_a_proj.weight", of_queries, hidden),
        same(ours + "q_layernorm.weight", theirs + "q_a_layernorm.weight", of_queries),
        same(ours + "linear_q_up_proj.weight", theirs + "q_b_proj.weight", queries, of_queries),
    ]


def blocks(model: ModelConfig) -> list[Rule]:
    """All blocks, each of the kind that the configuration says, with experts as `experts` has them."""
    return [rule for number, mixed in enumerate(_mixed(model)) for rule in _block(model, block_at(number), mixed)]


def _mixed(model: ModelConfig) -> list[bool]:
    from trainwright.recipes.blocks import expert_blocks

    return expert_blocks(model)


def _block(model: ModelConfig, block: Block, mixed: bool) -> list[Rule]:
    attending = latent_attention if model.multi_latent_attention else attention
    return [*attending(model, block), *(experts if mixed else feed_forward)(model, block)]


def decoder(model: ModelConfig) -> list[Rule]:
    """Every weight of a model, further predictions included."""
    return [*around_blocks(model), *blocks(model), *further_predictions(model)]


def further_predictions(model: ModelConfig) -> list[Rule]:
    """Multi-token prediction: a block after the last for each depth, of the last one's kind, with what is around it."""
    rules = []
    for depth in range(model.mtp_num_layers or 0):
        ours = f"mtp.layers.{depth}."
        theirs = f"model.layers.{model.num_layers + depth}."
        inner = f"{ours}mtp_model_layer.layers."
        hidden = model.hidden_size
        rules += [
            same(ours + "enorm.weight", theirs + "enorm.weight", hidden),
            same(ours + "hnorm.weight", theirs + "hnorm.weight", hidden),
            same(ours + "eh_proj.weight", theirs + "eh_proj.weight", hidden, 2 * hidden),
            same(ours + "final_layernorm.weight", theirs + "shared_head.norm.weight", hidden),
            *_block(model, Block(inner + "0.", inner + "1.", theirs), _mixed(model)[-1]),
        ]
    return rules


def copies_in_further_predictions(model: ModelConfig) -> dict[str, str]:
    """Their names of tensors that repeat another, with that one's name: each depth comes with the vocabulary again."""
    output = THEIR_EMBEDDING if model.share_embeddings_and_output_weights else THEIR_OUTPUT
    return {
        f"model.layers.{model.num_layers + depth}.{name}": original
        for depth in range(model.mtp_num_layers or 0)
        for name, original in {"embed_tokens.weight": THEIR_EMBEDDING, "shared_head.head.weight": output}.items()
    }
