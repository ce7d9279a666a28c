"""What a rank keeps of a micro-batch for its backward pass: tensor by tensor, block by block.

After Korthikanti et al. 2022 (arXiv:2205.05198, section 4), who list the tensors of a GPT block, and with them add up
to 34 bytes a position and channel. The same list is made here for grouped queries, gated units, latents and experts,
for the layers of Transformer Engine as Megatron Core puts them together (`own=False`) and for this project's own
layers, which run on a CPU (`own=True`); the latter is compared, tensor by tensor, with what a run holds.

Tensors of less than a number for each head of a position are left out, and so is what lives within one operation.
Experts are taken to get equally many tokens.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from trainwright.recipes.blocks import expert_blocks
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.parameters import padded_vocabulary, split_of
from trainwright.recipes.precision import Widths

SMALL = 4
"""Bytes of a statistic in 32 bits."""
INDEX = 8
"""Bytes of the number of a token."""


@dataclass(frozen=True)
class Kept:
    """A tensor that is kept from the forward to the backward pass of a micro-batch."""

    what: str
    elements: float
    """On one rank."""
    width: float
    """Bytes of an element."""
    inputs_of: tuple[str, ...] = ()
    """Linear layers for the gradient of whose weights alone it is kept; none of them: it is kept in any case."""
    recomputed_with: tuple[str, ...] = ()
    """Names of `model.recompute_modules` any of which makes it again in place of keeping it."""
    kept_with: str | None = None
    """The name of `model.recompute_modules` that keeps it, as something that the rest is made from; null: any kept."""

    @property
    def size(self) -> float:
        """Bytes."""
        return self.elements * self.width


@dataclass(frozen=True)
class Beside:
    """The adapter of a frozen linear layer."""

    columns: int
    """Inputs of the layer on one rank."""
    rows: int
    """Of A, all its parts together."""
    outputs: float = 0.0
    """What DoRA keeps for each row that goes in: outputs before they get their lengths."""


@dataclass(frozen=True)
class Share:
    """What a rank has of a micro-batch, and how."""

    model: ModelConfig
    widths: Widths
    positions: float
    """Positions of a micro-batch on a context parallel rank."""
    row: int
    """Positions of a row over all context parallel ranks."""
    own: bool
    """Layers are this project's, and not Transformer Engine's."""
    adapters: Mapping[str, Beside] | None = None
    """By path, of all linear layers that have one; null where the weights themselves are trained."""

    @property
    def tensor(self) -> int:
        """Ranks between which heads and widths are split."""
        return self.model.tensor_model_parallel_size

    @property
    def spread(self) -> float:
        """Positions of a micro-batch on a rank outside of what is split between tensor parallel ranks."""
        return self.positions / (self.tensor if self.model.sequence_parallel else 1)

    @property
    def gathered(self) -> float:
        """Positions of which a rank keeps keys and values: those of all context parallel ranks with our own layers."""
        return self.positions * (self.model.context_parallel_size if self.own else 1)

    @property
    def hidden(self) -> float:
        """Elements of the residual stream."""
        return self.spread * self.model.hidden_size


def recomputed(model: ModelConfig) -> frozenset[str]:
    """Names of `model.recompute_modules` that act, Megatron Core's default where none are said."""
    if model.recompute_granularity != "selective":
        return frozenset()
    modules = (model.model_extra or {}).get("recompute_modules")
    return frozenset(("core_attn",) if modules is None else modules)


def of_block(share: Share, number: int, prefix: str | None = None) -> list[list[Kept]]:
    """Of one block: of its attention, and of its feed-forward part.

    `prefix` is where its linear layers are, `decoder.layers.NUMBER.` unless it is said.
    """
    mixed = expert_blocks(share.model)[number]
    attention = _latent_attention(share) if share.model.multi_latent_attention else _attention(share)
    feed_forward = _experts(share) if mixed else _dense(share)
    modules = recomputed(share.model)
    halves = (_trained(share, half, prefix or f"decoder.layers.{number}.") for half in (attention, feed_forward))
    return [[one for one in half if one.kept_with is None or one.kept_with in modules] for half in halves]


def of_embedding(share: Share) -> list[Kept]:
    """Of what comes before the first block."""
    return [Kept("tokens", share.positions, INDEX), *_dropout(share)]


def of_loss(share: Share, vocabulary: int) -> list[Kept]:
    """Of the last norm, the output layer and the loss over `vocabulary` tokens."""
    model, activation = share.model, share.widths.activation
    # Transformer Engine's loss overwrites logits with their gradient; any other one keeps 32 bits.
    impl = (model.model_extra or {}).get("cross_entropy_fusion_impl", "native")
    in_place = model.cross_entropy_loss_fusion and impl == "te" and not share.own
    logits = share.positions * padded_vocabulary(model, vocabulary) / share.tensor
    kept = [
        Kept("input of the last norm", share.hidden, activation),
        Kept("its output", share.hidden, activation, ("output_layer",)),
        Kept("logits", logits, activation if in_place else SMALL),
    ]
    return [one for one in kept if share.adapters is None or not one.inputs_of]


def of_prediction(share: Share, depth: int, vocabulary: int) -> list[Kept]:
    """Of one depth of multi-token prediction: two norms and a matrix, a block, and the loss once more."""
    activation, hidden = share.widths.activation, share.hidden
    joined = [
        Kept("tokens", share.positions, INDEX),
        Kept("embeddings and hidden states before their norms", 2 * hidden, activation),
    ]
    if share.adapters is None:
        joined.append(Kept("both after their norms", 2 * hidden, share.widths.product))
    block = of_block(share, share.model.num_layers - 1, f"mtp.layers.{depth}.")
    return [*joined, *chain(*block), *of_loss(share, vocabulary)]


def _attention(share: Share) -> Iterator[Kept]:
    model, activation, product = share.model, share.widths.activation, share.widths.product
    channels, groups = model.kv_channels or 0, model.num_query_groups or 0
    heads = share.positions * model.num_attention_heads / share.tensor
    queries, keys = heads * channels, share.gathered * groups * channels / share.tensor
    yield Kept("input of the norm", share.hidden, activation)
    yield Kept("input of linear_qkv", share.hidden, product, ("self_attention.linear_qkv",))
    if model.qk_layernorm:
        yield Kept("queries and keys before their norms", queries + keys, activation)
        yield Kept("their statistics", (queries + keys) / channels, SMALL)
    copied = (
        model.position_embedding_type in ("rope", "yarn") or model.qk_layernorm or groups < model.num_attention_heads
    )
    # Queries that are a view of the joint projection keep all of it.
    joint = 0.0 if copied or not share.own else 2 * keys
    if share.own and (model.softmax_type != "vanilla" or model.attention_dropout):
        # PyTorch's fused kernel does neither: each head has its own keys, and the softmax is kept.
        yield Kept("queries, and keys and values of each head", 3 * queries, activation)
        yield Kept("softmax", heads * share.row, activation, (), ("core_attn",))
    else:
        values = () if joint else ("core_attn",)
        yield Kept("queries and keys", queries + keys + joint, activation)
        yield Kept("values", keys, activation, (), values)
        # Which values are a part of, and which attention is made again from.
        if values:
            yield Kept("the joint projection", queries + 2 * keys, activation, kept_with="core_attn")
    yield from _context(share, heads, queries)


def _context(share: Share, heads: float, size: float) -> Iterator[Kept]:
    activation, product = share.widths.activation, share.widths.product
    linear = "self_attention.linear_proj"
    yield Kept("sums of softmax", heads, SMALL, (), ("core_attn",))
    if product == activation:
        yield Kept("output of attention", size, activation)  # one tensor, also as the input of linear_proj
    else:
        yield Kept("output of attention", size, activation, (), ("core_attn",))
        yield Kept("input of linear_proj", size, product, (linear,))
    yield from _dropout(share)


def _latent_attention(share: Share) -> Iterator[Kept]:
    """Latents are whole on every rank, so that only sequence parallelism splits them."""
    model, activation, product = share.model, share.widths.activation, share.widths.product
    heads = share.positions * model.num_attention_heads / share.tensor
    wide = (model.qk_head_dim or 0) + (model.qk_pos_emb_head_dim or 0)
    value = model.v_head_dim or 0
    down = [f"self_attention.{name}" for name in ("linear_q_proj", "linear_q_down_proj", "linear_kv_down_proj")]
    yield Kept("input of the norm", share.hidden, activation)
    yield Kept("input of the down projections", share.hidden, product, tuple(down), ("layernorm",))
    for name, rank in (("q", model.q_lora_rank or 0), ("kv", model.kv_lora_rank or 0)):
        up = (f"self_attention.linear_{name}_up_proj",)
        yield Kept(f"latent of {name} before its norm", share.spread * rank, activation)
        yield Kept(f"latent of {name}", share.spread * rank, product, up)
    # This project's kernel wants values as wide as keys, and copies both; a recomputed projection leaves the copies.
    again, padded = ("mla_up_proj",), wide if share.own else value
    yield Kept("queries", heads * wide, activation, (), again)
    keys = share.gathered * model.num_attention_heads / share.tensor * (wide + padded)
    yield Kept("keys and values", keys, activation, (), () if share.own else again)
    yield from _context(share, heads, heads * value)
    if share.own and padded > value:
        yield Kept("output of attention, padded", heads * padded, activation, (), ("core_attn",))


def _dropout(share: Share) -> Iterator[Kept]:
    if share.model.hidden_dropout:
        yield Kept("mask of dropout", share.hidden, 1)


def _dense(share: Share) -> Iterator[Kept]:
    yield Kept("input of the norm", share.hidden, share.widths.activation)
    # Transformer Engine has the norm inside the linear layer, and so inside what is recomputed.
    again = () if share.own else ("mlp",)
    yield Kept("input of linear_fc1", share.hidden, share.widths.product, ("mlp.linear_fc1",), again)
    if share.own:
        # Megatron Core's HybridModel recomputes the feed-forward part that an attention layer does not have.
        yield Kept("input of the block's second half", share.hidden, share.widths.activation, kept_with="mlp")
    width = share.positions * (share.model.ffn_hidden_size or 0) / share.tensor
    yield from _unit(share, "mlp.", width, ("mlp",))
    yield from _dropout(share)


def _unit(
    share: Share, prefix: str, width: float, again: tuple[str, ...], last: tuple[str, ...] = (), weighted: bool = False
) -> Iterator[Kept]:
    """Between the two linear layers of a feed-forward part. `last` are further names that recompute only its end."""
    model, activation = share.model, share.widths.activation
    halves = 2 if model.gated_linear_unit else 1
    yield Kept("output of linear_fc1", halves * width, activation, (), again)
    steps = _steps(share) + int(weighted and not _fused(share))
    if steps:
        yield Kept("steps of the activation", steps * width, activation, (), (*again, *last))
    yield Kept("input of linear_fc2", width, share.widths.product, (f"{prefix}linear_fc2",), (*again, *last))


def _fused(share: Share) -> bool:
    return bool((share.model.model_extra or {}).get("bias_activation_fusion")) and not share.own


def _steps(share: Share) -> int:
    """Tensors of a feed-forward part's width that a gated activation keeps beside its input: one for each operation
    that is done on its own."""
    model = share.model
    if _fused(share) or not model.gated_linear_unit:
        return 0
    clamped = model.activation_func_clamp_value is not None
    if share.own and model.activation_func == "silu" and not clamped and not model.glu_linear_offset:
        return 1
    return 2 + int(clamped) + int(model.activation_func == "quick_gelu")


def _experts(share: Share) -> Iterator[Kept]:
    model, activation, product = share.model, share.widths.activation, share.widths.product
    split, experts, chosen = split_of(model), model.num_moe_experts or 0, model.moe_router_topk
    shared = model.moe_shared_expert_intermediate_size
    again = ("moe",)
    yield Kept("input of the norm", share.hidden, activation)
    inputs = ("mlp.router", *(("mlp.shared_experts.linear_fc1",) if shared else ()))
    yield Kept("input of the router and of shared experts", share.hidden, activation, inputs, ("layernorm",))
    yield from _routing(share, experts, chosen)
    tokens = share.spread * chosen * split.expert_tensor
    width = tokens * (model.moe_ffn_hidden_size or model.ffn_hidden_size or 0) / split.expert_tensor
    yield Kept("tokens of experts", tokens * model.hidden_size, product, ("mlp.experts.linear_fc1",), again)
    yield Kept("their weights", tokens, SMALL, (), again)
    yield from _unit(share, "mlp.experts.", width, again, ("moe_act",), weighted=True)
    if shared is not None:
        if product != activation:
            linear = ("mlp.shared_experts.linear_fc1",)
            yield Kept("input of shared experts", share.hidden, product, linear, ("moe", "shared_experts"))
        size = share.positions * shared / share.tensor
        yield from _unit(share, "mlp.shared_experts.", size, ("moe", "shared_experts"))
    yield from _dropout(share)


def _routing(share: Share, experts: int, chosen: int) -> Iterator[Kept]:
    """Scores, choices, and where each token goes: two numbers for each expert and token, as kernels keep them."""
    model, again = share.model, ("moe",)
    yield Kept("scores", share.spread * experts, SMALL, (), again)
    yield Kept("choices", share.spread * chosen, INDEX + SMALL, (), again)
    yield Kept("order of tokens", share.spread * experts, INDEX, (), again)
    yield Kept("places of tokens", share.spread * chosen, INDEX, (), again)
    if model.moe_router_num_groups and model.moe_router_num_groups > 1 and not model.moe_router_fusion:
        yield Kept("choices of groups", share.spread * model.moe_router_num_groups, 3 * INDEX, (), again)


def _trained(share: Share, kept: Iterable[Kept], prefix: str) -> Iterator[Kept]:
    """Without inputs of linear layers that are frozen; with what their adapters keep beside them."""
    if share.adapters is None:
        yield from kept
        return
    for one in kept:
        beside = [share.adapters[prefix + name] for name in one.inputs_of if prefix + name in share.adapters]
        if beside or not one.inputs_of:
            yield one
        for adapter in beside:
            down = one.elements / adapter.columns * adapter.rows
            yield Kept(f"what A makes of {one.what}", down, share.widths.activation, one.inputs_of)
            outputs = one.elements / adapter.columns * adapter.outputs
            if outputs:
                yield Kept("outputs before their lengths", outputs, share.widths.activation, one.inputs_of)
