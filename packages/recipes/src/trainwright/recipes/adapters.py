"""Which linear layers of a model get an adapter, and how large it is: arithmetic, without a model.

Layers are named as the field names them, by block: `decoder.layers.{block}.self_attention.linear_qkv`. All experts of
a block share a name (`...mlp.experts.linear_fc1`) and get one adapter each. Blocks of multi-token prediction are
`mtp.layers.{depth}.self_attention...`.

An adapter is a list of parts. A part has its own A (dim x columns) and the rows of B (rows x dim) that it adds to. A
fused layer that is targeted by its own name has one part over all of its rows; targeted by the names of what is fused
in it (`linear_q`, `linear_k`, `linear_v`), a part for each.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from trainwright.recipes.blocks import blocks_per_chunk, expert_blocks
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.config.peft import PeftConfig
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.nearest import did_you_mean
from trainwright.recipes.parameters import Count, Split, split_of


@dataclass(frozen=True)
class Part:
    """Output rows of a linear layer that have an A of their own."""

    name: str
    """Of the layer, or of what is fused in it."""
    rows: int
    """Over all ranks."""


@dataclass(frozen=True)
class Linear:
    """A linear layer that can have an adapter. Sizes are over all ranks."""

    path: str
    columns: int
    """Inputs."""
    rows: int
    """Outputs."""
    split: Literal["rows", "columns"] | None
    """What tensor parallel ranks share out; null where each has the whole."""
    fused: tuple[Part, ...] = ()
    """What is fused in it."""
    experts: int | None = None
    """Layers of this name, one for each expert; null for a layer that is not an expert's."""

    @property
    def name(self) -> str:
        """The last word of its path."""
        return self.path.rpartition(".")[2]

    def path_of(self, name: str) -> str:
        """The path with the name of a part in its place."""
        return f"{self.path.rpartition('.')[0]}.{name}"


@dataclass(frozen=True)
class Adapted:
    """A linear layer and the parts of its adapter."""

    linear: Linear
    parts: tuple[Part, ...]


THEIR_NAMES = {
    "q_proj": ("linear_q", "linear_q_proj"),
    "k_proj": ("linear_k",),
    "v_proj": ("linear_v",),
    "o_proj": ("linear_proj",),
    "q_a_proj": ("linear_q_down_proj",),
    "q_b_proj": ("linear_q_up_proj",),
    "kv_a_proj_with_mqa": ("linear_kv_down_proj",),
    "kv_b_proj": ("linear_kv_up_proj",),
    "gate_proj": ("linear_fc1_gate",),
    "up_proj": ("linear_fc1_up",),
    "down_proj": ("linear_fc2",),
}
"""Names in transformers, which users of PEFT know, and what they are here; a model has at most one of several."""


def linears(model: ModelConfig) -> list[Linear]:
    """Every linear layer that can have an adapter, block by block; those of multi-token prediction last."""
    mixed = expert_blocks(model)
    found = [linear for number in range(model.num_layers) for linear in _block(model, mixed[number], _block_at(number))]
    for depth in range(model.mtp_num_layers or 0):
        found += _block(model, mixed[-1], f"mtp.layers.{depth}.")
    return found


def _block_at(number: int) -> str:
    return f"decoder.layers.{number}."


def _block(model: ModelConfig, mixed: bool, begin: str) -> list[Linear]:
    attention = _latent_attention(model) if model.multi_latent_attention else _attention(model)
    feed_forward = _experts(model) if mixed else _feed_forward(model, model.ffn_hidden_size or 0, "mlp.")
    return [replace(linear, path=begin + linear.path) for linear in (*attention, *feed_forward)]


def _attention(model: ModelConfig) -> Iterator[Linear]:
    channels, hidden = model.kv_channels or 0, model.hidden_size
    queries, keys = model.num_attention_heads * channels, (model.num_query_groups or 0) * channels
    parts = (Part("linear_q", queries), Part("linear_k", keys), Part("linear_v", keys))
    yield Linear("self_attention.linear_qkv", hidden, queries + 2 * keys, "rows", parts)
    yield Linear("self_attention.linear_proj", queries, hidden, "columns")


def _latent_attention(model: ModelConfig) -> Iterator[Linear]:
    """Down projections are whole on every rank."""
    hidden, heads, latent = model.hidden_size, model.num_attention_heads, model.kv_lora_rank or 0
    content, position, value = model.qk_head_dim or 0, model.qk_pos_emb_head_dim or 0, model.v_head_dim or 0
    queries = heads * (content + position)
    if model.q_lora_rank is None:
        yield Linear("self_attention.linear_q_proj", hidden, queries, "rows")
    else:
        yield Linear("self_attention.linear_q_down_proj", hidden, model.q_lora_rank, None)
        yield Linear("self_attention.linear_q_up_proj", model.q_lora_rank, queries, "rows")
    yield Linear("self_attention.linear_kv_down_proj", hidden, latent + position, None)
    yield Linear("self_attention.linear_kv_up_proj", latent, heads * (content + value), "rows")
    yield Linear("self_attention.linear_proj", heads * value, hidden, "columns")


def _feed_forward(model: ModelConfig, width: int, begin: str, experts: int | None = None) -> Iterator[Linear]:
    halves = (Part("linear_fc1_gate", width), Part("linear_fc1_up", width)) if model.gated_linear_unit else ()
    rows = width * (len(halves) or 1)
    yield Linear(begin + "linear_fc1", model.hidden_size, rows, "rows", halves, experts)
    yield Linear(begin + "linear_fc2", width, model.hidden_size, "columns", (), experts)


def _experts(model: ModelConfig) -> Iterator[Linear]:
    width, shared = model.moe_ffn_hidden_size or model.ffn_hidden_size or 0, model.moe_shared_expert_intermediate_size
    yield from _feed_forward(model, width, "mlp.experts.", model.num_moe_experts)
    if shared is not None:
        yield from _feed_forward(model, shared, "mlp.shared_experts.")


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*"))


def matches(pattern: str, path: str) -> bool:
    """Whether a pattern means the layer at `path`: by its name, or where it has `*` or a dot by its whole path."""
    if "*" in pattern or "." in pattern:
        return _pattern(pattern).fullmatch(path) is not None
    return pattern == path.rpartition(".")[2]


def parts_of(linear: Linear, peft: PeftConfig) -> tuple[Part, ...]:
    """The parts of a layer's adapter; none where it gets none.

    Raises ConfigError where a layer is targeted as a whole and by a part, or excluded by a part and targeted as a
    whole.
    """
    whole, target, exclude = linear.path, peft.target_modules, peft.exclude_modules
    if _first(exclude, whole) is not None:
        return ()
    targeting = _first(target, whole)
    # A pattern that means the whole layer also fits the names of its parts.
    by_part = {part: _first(target, linear.path_of(part.name), but_not=whole) for part in linear.fused}
    excluded = {part: _first(exclude, linear.path_of(part.name), but_not=whole) for part in linear.fused}
    if targeting is None:
        return tuple(part for part, pattern in by_part.items() if pattern is not None and excluded[part] is None)
    for field, patterns in (("target_modules", by_part), ("exclude_modules", excluded)):
        if any(patterns.values()):
            pattern = next(filter(None, patterns.values()))
            names = ", ".join(part.name for part in linear.fused)
            raise ConfigError(
                f"peft.{field}: {pattern!r} means a part of {linear.name}, which {targeting!r} targets as a whole; "
                f"target parts by their names in its place: {names}"
            )
    return (Part(linear.name, linear.rows),)


def _first(patterns: Iterable[str], path: str, but_not: str | None = None) -> str | None:
    """The first pattern that means `path` and not `but_not`."""
    for one in patterns:
        if matches(one, path) and (but_not is None or not matches(one, but_not)):
            return one
    return None


def adapted(model: ModelConfig, peft: PeftConfig) -> list[Adapted]:
    """The layers that get an adapter, in the order of `linears`.

    Raises ConfigError for a pattern that matches no layer of the model, and where none is left to train.
    """
    every = linears(model)
    for field in ("target_modules", "exclude_modules"):
        for pattern in getattr(peft, field):
            _matches_something(f"peft.{field}", pattern, every)
    found = [Adapted(linear, parts) for linear in every if (parts := parts_of(linear, peft))]
    if not found:
        raise ConfigError("peft.exclude_modules leaves none of peft.target_modules to train")
    return found


def _paths(linear: Linear) -> tuple[str, ...]:
    return (linear.path, *(linear.path_of(part.name) for part in linear.fused))


def _matches_something(field: str, pattern: str, every: list[Linear]) -> None:
    if any(matches(pattern, path) for linear in every for path in _paths(linear)):
        return
    names = list(dict.fromkeys(path.rpartition(".")[2] for linear in every for path in _paths(linear)))
    ours = [name for name in THEIR_NAMES.get(pattern, ()) if name in names]
    hint = f"; {pattern} is {ours[0]} here" if ours else did_you_mean(pattern, names)
    if "*" in pattern or "." in pattern:
        hint = f", at paths such as {every[0].path}"
    raise ConfigError(f"{field}: {pattern!r} matches no layer of this model; it has {', '.join(names)}{hint}")


def adapter(one: Adapted, peft: PeftConfig, split: Split | None = None) -> Count:
    """Parameters of a layer's adapter on one rank; without `split` over all ranks.

    A and B of every part; DoRA's length of each row too.
    """
    split = split or Split()
    linear, experts = one.linear, one.linear.experts
    ranks = split.tensor if experts is None else split.expert_tensor
    by_rows, by_columns = (ranks if linear.split == way else 1 for way in ("rows", "columns"))
    rows = sum(part.rows for part in one.parts) // by_rows
    parameters = len(one.parts) * peft.dim * linear.columns // by_columns + rows * peft.dim
    parameters += rows if peft.scheme == "dora" else 0
    return Count(parameters) if experts is None else Count(0, experts // split.experts * parameters)


def trainable_parameters(model: ModelConfig, peft: PeftConfig) -> int:
    """Parameters of all adapters. Raises ConfigError as `adapted` does."""
    return sum(adapter(one, peft).total for one in adapted(model, peft))


def stage_adapters(model: ModelConfig, peft: PeftConfig) -> list[Count]:
    """Parameters of adapters on one rank of each pipeline stage. Raises ConfigError as `adapted` does."""
    split, stages = split_of(model), model.pipeline_model_parallel_size
    stage_of: dict[str, int] = {}
    number = 0
    for chunk, blocks in enumerate(blocks_per_chunk(model)):
        stage_of |= {_block_at(block): chunk % stages for block in range(number, number + blocks)}
        number += blocks
    counts = [Count()] * stages
    for one in adapted(model, peft):
        block = _block_at(int(one.linear.path.split(".")[2]))
        stage = stage_of[block] if one.linear.path.startswith(block) else stages - 1
        counts[stage] += adapter(one, peft, split)
    return counts
