"""Starting from weights: of a Hugging Face directory or of any native checkpoint, at any topology."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from trainwright.runner.adapters.sharding import is_of_adapter
from trainwright.runner.checkpoints.content import CONTENT
from trainwright.runner.checkpoints.conversion import open_weights
from trainwright.runner.errors import RunRefused

if TYPE_CHECKING:
    from torch import Tensor

    from trainwright.recipes.config.model import ModelConfig
    from trainwright.runner.checkpoints.weights import Weights
    from trainwright.runner.step import Trainer

ON_PURPOSE = (
    "position_embedding_type", "rotary_base", "rope_", "yarn_", "rotary_scaling_factor", "mscale", "beta_",
    "original_max_position_embeddings",
)  # fmt: skip
"""How fields begin in which a run may differ from its weights: sequences get longer this way."""
FURTHER_PREDICTIONS = "mtp."
"""How names of multi-token prediction begin."""


def load_pretrained(trainer: Trainer, path: Path, step: int | None) -> list[str]:
    """Start from the weights at `path` and from nothing else of it; returns what to tell, a line each.

    Raises:
        RunRefused: the checkpoint cannot be read, or belongs to another model.
    """
    from megatron.core.utils import unwrap_model

    weights = open_weights(path, step)
    chunks, model = unwrap_model(trainer.chunks), trainer.resolved.config.model
    remarks = same_architecture(weights, model)
    require_vocabulary(weights, model, chunks[0].tokens)
    unused = left_out(weights, model)
    fill(chunks, weights, without=unused)
    trainer.optimizer.reload_model_params()
    if unused:
        elements = sum(math.prod(weights.held[name].shape) for name in unused)
        remarks.append(f"left out: {elements:,} parameters of multi-token prediction, as model.mtp_num_layers is null")
    return [describe(weights, params_dtype(chunks)), *weights.remarks, *remarks]


def left_out(weights: Weights, model: ModelConfig) -> frozenset[str]:
    """Names of parameters that a run does not need: those that predict further tokens, where it predicts none."""
    if model.mtp_num_layers is not None:
        return frozenset()
    return frozenset(name for name in weights.held if name.startswith(FURTHER_PREDICTIONS))


def describe(weights: Weights, into: torch.dtype | None = None) -> str:
    """One line: which kind it is, how many parameters, in which types, and what becomes of them."""
    elements = sum(torch.Size(weight.shape).numel() for weight in weights.held.values())
    types = ", ".join(sorted({str(weight.dtype).removeprefix("torch.") for weight in weights.held.values()}))
    as_what = f", loaded as {str(into).removeprefix('torch.')}" if into is not None else ""
    tied = ", embeddings tied" if weights.model and weights.model.share_embeddings_and_output_weights else ""
    return f"weights from {weights.path} ({weights.kind}): {elements:,} parameters{tied}, {types}{as_what}"


def params_dtype(chunks: Sequence[torch.nn.Module]) -> torch.dtype:
    """The type of this rank's weights."""
    return next(parameter.dtype for chunk in chunks for parameter in chunk.parameters())


def same_architecture(weights: Weights, model: ModelConfig) -> list[str]:
    """Find out whether the weights are of a model like `model`; returns in what it differs where it may.

    Raises:
        RunRefused: they would compute something else here.
    """
    from trainwright.runner.huggingface.family import differences

    if weights.model is None:
        return []
    known = weights.model
    if model.mtp_num_layers is None:
        known = known.model_copy(update={"mtp_num_layers": None})
    found = differences(known, model)
    wrong = [line for line in found if not line.startswith(ON_PURPOSE)]
    if wrong:
        raise RunRefused(f"{weights.path} belongs to another model: {'; '.join('model.' + line for line in wrong[:5])}")
    return [f"not as the weights were trained: model.{line}" for line in found]


def require_vocabulary(weights: Weights, model: ModelConfig, tokens: int) -> None:
    """Find out whether the checkpoint's vocabulary is this run's, of `tokens` tokens.

    Raises:
        RunRefused: it has more tokens or fewer.
    """
    from trainwright.recipes.parameters import padded_vocabulary
    from trainwright.runner.huggingface.parts import EMBEDDING

    known = weights.model.vocab_size if weights.model else None
    if known is None:
        rows = weights.held[EMBEDDING].shape[0] if EMBEDDING in weights.held else 0
        if tokens <= rows <= max(padded_vocabulary(model, tokens), tokens + 1023):
            return
        known = rows
    if known > tokens:
        raise RunRefused(
            f"{weights.path} has {known} tokens and this run's vocabulary {tokens}: set model.vocab_size={known}, "
            "or name its own tokenizer"
        )
    if known < tokens:
        raise RunRefused(
            f"{weights.path} has {known} tokens and this run's vocabulary {tokens}: the tokenizer is not the one of "
            "these weights"
        )


@torch.no_grad()
def fill(
    chunks: Sequence[torch.nn.Module], weights: Weights, *, adapters: bool = False, without: Collection[str] = ()
) -> None:
    """Put the weights into this rank's unwrapped model chunks, of which each rank reads what it holds.

    With `adapters` they are those of the adapters in the chunks, else those of all that is no adapter. `without` are
    names of the checkpoint that no chunk has a place for.

    Raises:
        RunRefused: the checkpoint holds other parameters than the model, or of other shapes.
    """
    from megatron.core.dist_checkpointing.dict_utils import nested_values
    from megatron.core.dist_checkpointing.mapping import ShardedTensor
    from megatron.core.dist_checkpointing.state_dict_utils import load_preprocess

    parts = []
    for chunk in chunks:
        state, _, _ = load_preprocess(chunk.sharded_state_dict(metadata=dict(CONTENT)))
        found = (part for part in nested_values(state) if isinstance(part, ShardedTensor))
        parts += [part for part in found if is_of_adapter(part.key) == adapters]
    _require_exact(weights, parts, without)
    own = {_memory(tensor) for chunk in chunks for tensor in (*chunk.parameters(), *chunk.buffers())}
    for part in parts:
        if _memory(part.data) not in own:
            raise ValueError(f"{part.key} is no view of the model's own memory")
        _fill_part(part, weights)


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _require_exact(weights: Weights, parts: Sequence[Any], without: Collection[str]) -> None:
    """All ranks together have a place for every parameter of the checkpoint, and for no other."""
    from trainwright.runner.huggingface.parts import VOCABULARY
    from trainwright.runner.huggingface.rules import Slot, require_exact_cover

    mine = {part.key: tuple(part.global_shape) for part in parts}
    of_ranks: list[dict[str, tuple[int, ...]]] = [{}] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(of_ranks, mine)
    wanted = {name: shape for names in of_ranks for name, shape in names.items()}
    held = {
        name: (wanted[name][0], *weight.shape[1:]) if name in VOCABULARY and name in wanted else weight.shape
        for name, weight in weights.held.items()
        if name not in without
    }
    slots = [Slot(name, shape) for name, shape in wanted.items()]
    require_exact_cover(slots, held, where=f"{weights.path} belongs to another model: it", what="this one")


def _fill_part(part: Any, weights: Weights) -> None:
    """Read one rectangle. Rows that only pad the vocabulary become zero."""
    offsets, sizes = part.global_offset, (1,) * part.prepend_axis_num + tuple(part.local_shape)
    rows = weights.held[part.key].shape[0]
    here = max(0, min(sizes[0], rows - offsets[0]))
    target = part.data
    if here < sizes[0]:
        target[here:].zero_()
        target, sizes = target[:here], (here, *sizes[1:])
    if here:
        target.copy_(weights.block(part.key, offsets, sizes).view(target.shape))
