"""Which layers of this rank's model get an adapter, and what becomes of the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trainwright.recipes.adapters import Adapted, Linear, adapted
from trainwright.runner.adapters.adapter import Adapter
from trainwright.runner.adapters.linear import split_of
from trainwright.runner.adapters.rows import Rows
from trainwright.runner.adapters.sharding import shard_with_adapter
from trainwright.runner.models.layer_pattern import LAYERS_PER_BLOCK

if TYPE_CHECKING:
    from trainwright.recipes import ConfigContainer
    from trainwright.recipes.config.model import ModelConfig
    from trainwright.recipes.config.peft import PeftConfig

LAYER = re.compile(r"decoder\.layers\.(\d+)\.(.+)")
LAYER_OF_PREDICTION = re.compile(r"mtp\.layers\.(\d+)\.mtp_model_layer\.layers\.\d+\.(.+)")
EXPERT = re.compile(r"(.+\.experts)\.local_experts\.(\d+)\.(.+)")


@dataclass(frozen=True)
class Held:
    """A linear layer of this rank."""

    path: str
    """As recipes name it: by block, all experts of a block alike."""
    expert: int | None
    """Which of the block's experts it belongs to."""
    module: Any


def attach(
    chunks: Sequence[torch.nn.Module], config: ConfigContainer, peft: PeftConfig, *, alone: bool = False
) -> None:
    """Freeze this rank's model chunks, and give the layers that `peft` targets what is trained.

    Collective: every rank calls it; `alone` is for a rank without the others, which are then not asked what they have.
    Raises ConfigError for patterns that match nothing.
    """
    from megatron.core.utils import unwrap_model

    wanted = {one.linear.path: one for one in adapted(config.model, peft)}
    found = set()
    for chunk in unwrap_model(list(chunks)):
        freeze(chunk)
        for held in list(linear_layers(chunk)):
            if held.path in wanted:
                found.add(held.path)
                _give(held, wanted[held.path], config, peft)
    if not alone:
        require_all(set(wanted), found)


def freeze(chunk: Any) -> None:
    """Nothing of the chunk is trained any more; a router's bias, which is no parameter, stays as it is as well."""
    chunk.requires_grad_(False)
    for module in chunk.modules():
        if hasattr(module, "expert_bias"):
            module.frozen_expert_bias = True
    if hasattr(chunk, "embedding"):
        # Recomputed layers are differentiated only where an input is, and a stage only where its output is.
        chunk.embedding.register_forward_hook(_differentiable)


def _differentiable(module: torch.nn.Module, arguments: tuple[Any, ...], output: Tensor) -> Tensor:
    return output.requires_grad_() if torch.is_grad_enabled() and output.is_leaf else output


def linear_layers(chunk: Any) -> Iterator[Held]:
    """Every module of the chunk at a path that recipes could name, linear or not."""
    for name, module in chunk.named_modules():
        inside, of_prediction = LAYER.fullmatch(name), LAYER_OF_PREDICTION.fullmatch(name)
        if inside is not None:
            layer = chunk.decoder.layers[int(inside[1])].layer_number - 1  # over all stages
            path = f"decoder.layers.{layer // LAYERS_PER_BLOCK}.{inside[2]}"
        elif of_prediction is not None:
            path = f"mtp.layers.{of_prediction[1]}.{of_prediction[2]}"
        else:
            continue
        expert = EXPERT.fullmatch(path)
        if expert is None:
            yield Held(path, None, module)
        else:
            experts = chunk.get_submodule(name.partition(".local_experts.")[0])
            first = experts.ep_group.rank() * experts.num_local_experts
            yield Held(f"{expert[1]}.{expert[3]}", first + int(expert[2]), module)


def _give(held: Held, one: Adapted, config: ConfigContainer, peft: PeftConfig) -> None:
    layer, linear = held.module, one.linear
    split_of(layer)  # refuses what has no adapters, before anything is asked of it
    rows, parts = rows_of(linear, one, layer, config.model), tuple(part.name for part in one.parts)
    adapter = Adapter(layer, rows, parts, peft, of_expert=held.expert is not None)
    path = linear.path if held.expert is None else f"{linear.path} {held.expert}"
    adapter.initialize(layer, path, linear.columns, seed=config.rng.seed, std=config.model.init_method_std)
    layer.adapter = adapter
    layer.register_forward_hook(_apply)
    gated = linear.fused if linear.name == "linear_fc1" else ()
    shard_with_adapter(layer, halves=(linear.name,) if gated and len(one.parts) == 1 else ())


def _apply(layer: Any, arguments: tuple[Any, ...], output: tuple[Tensor, Tensor | None]) -> tuple[Any, ...]:
    return layer.adapter(layer, arguments[0], output[0]), *output[1:]


def rows_of(linear: Linear, one: Adapted, layer: Any, model: ModelConfig) -> Rows:
    """How the rows that this rank holds are laid out."""
    local = layer.weight.size(0)
    if [part.name for part in one.parts] == [linear.name]:
        return Rows({linear.name: local})
    ranks = linear.rows // local
    groups = (model.num_query_groups or 1) // ranks if linear.name == "linear_qkv" else 1
    return Rows({part.name: part.rows // ranks // groups for part in linear.fused}, groups)


def require_all(wanted: set[str], found: set[str]) -> None:
    """All ranks together have what recipes' arithmetic says the model has."""
    of_ranks: list[set[str]] = [set()] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(of_ranks, found)
    if missing := wanted - set().union(*of_ranks):
        raise ValueError(f"the model has no layer {min(missing)}, of which recipes know")


def adapters_of(chunks: Sequence[torch.nn.Module]) -> Iterator[tuple[Any, Adapter]]:
    """Every layer of these chunks that has an adapter, and it."""
    for chunk in chunks:
        for module in chunk.modules():
            if isinstance(adapter := getattr(module, "adapter", None), Adapter):
                yield module, adapter


def measure(chunks: Sequence[torch.nn.Module]) -> None:
    """Set DoRA's magnitudes by the weights as they are now. Collective: every rank calls it."""
    for layer, adapter in adapters_of(chunks):
        adapter.measure(layer)
