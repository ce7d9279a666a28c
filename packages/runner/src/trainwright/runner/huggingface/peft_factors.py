"""Adapters of a linear layer of ours as adapters of the modules that transformers has in its place, and back.

Ours has an A for each of its parts, PEFT one for each module. A part that covers several modules gives each of them
its A and the module's rows of its B. Where one module covers several parts, the stacked gate and linear half of
experts, its rank is that of all of them together: their A one below the other, their B beside each other, each with
zeros in the rows of the others. Both directions are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from trainwright.runner.checkpoints.adapter_rows import Factors, part_rows
from trainwright.runner.errors import RunRefused

if TYPE_CHECKING:
    from torch import Tensor

    from trainwright.recipes.config.model import ModelConfig
    from trainwright.runner.huggingface.peft_layout import Layer, Theirs


def to_peft(layer: Layer, model: ModelConfig, parts: Mapping[str, Factors]) -> dict[str, Factors]:
    """Factors of each module of theirs that `parts` act on, by its name."""
    found = {}
    for theirs in layer.theirs:
        pieces = []
        for name in touching(layer, model, theirs, tuple(parts)):
            factors = parts[name]
            here = _places(part_rows(layer.linear, name, model), layer.linear.rows)[theirs.rows]
            inside, here = here >= 0, here.clamp(min=0)
            lengths = None if factors.magnitude is None else factors.magnitude[..., here] * inside
            pieces.append((factors.a, factors.b[..., here, :] * inside[:, None], lengths))
        if pieces:
            a, b, magnitudes = zip(*pieces, strict=True)
            magnitude = None if magnitudes[0] is None else torch.stack(magnitudes).sum(0)
            found[theirs.name] = Factors(torch.cat(a, -2), torch.cat(b, -1), magnitude)
    return found


def touching(layer: Layer, model: ModelConfig, theirs: Theirs, parts: tuple[str, ...]) -> tuple[str, ...]:
    """Which of the parts act on a module of theirs."""
    return tuple(part for part in parts if any(one is theirs for one in _sources(layer, model, part)))


def _places(rows: Tensor, count: int) -> Tensor:
    """For each of `count` rows, at which place of `rows` it stands; -1 where it does not."""
    places = torch.full((count,), -1)
    places[rows] = torch.arange(len(rows))
    return places


def own_parts(layer: Layer, model: ModelConfig, found: Mapping[str, Factors], dim: int) -> tuple[str, ...]:
    """The fewest parts that can hold what was `found` in modules of theirs."""
    whole, single = (layer.linear.name,), tuple(part.name for part in layer.linear.fused)
    if not single:
        return whole
    if len(layer.theirs) == 1:
        (factors,) = found.values()
        return single if factors.a.size(-2) == dim * len(single) else whole
    if len(found) == len(layer.theirs) and _share_an_a(list(found.values())):
        return whole
    return tuple(name for name in single if any(theirs.name in found for theirs in _sources(layer, model, name)))


def from_peft(
    layer: Layer, model: ModelConfig, found: Mapping[str, Factors], parts: tuple[str, ...], dim: int
) -> dict[str, Factors]:
    """Factors of the given parts, each of rank `dim`.

    Raises:
        RunRefused: what was found is not an adapter of just these parts.
    """
    covered = {theirs.name for part in parts for theirs in _sources(layer, model, part)}
    for names, says in ((covered - found.keys(), "it has no adapter of"), (found.keys() - covered, "it also adapts")):
        if names:
            raise RunRefused(f"{says} {min(names)}; the adapter of {layer.linear.path} has {', '.join(parts)}")
    return {part: _part(layer, model, found, parts, number, dim) for number, part in enumerate(parts)}


def _part(
    layer: Layer, model: ModelConfig, found: Mapping[str, Factors], parts: tuple[str, ...], number: int, dim: int
) -> Factors:
    part, rows = parts[number], part_rows(layer.linear, parts[number], model)
    sources = _sources(layer, model, part)
    first = found[sources[0].name]
    if not _share_an_a([found[theirs.name] for theirs in sources]):
        single = ", ".join(one.name for one in layer.linear.fused)
        raise RunRefused(
            f"{', '.join(theirs.name for theirs in sources)} have an A each and {part} one for all: target {single}"
        )
    whole = first.b.new_empty(*first.b.shape[:-2], layer.linear.rows, first.b.size(-1))
    lengths = None if first.magnitude is None else first.b.new_empty(whole.shape[:-1])
    for theirs in sources:
        whole[..., theirs.rows, :] = found[theirs.name].b
        if lengths is not None:
            lengths[..., theirs.rows] = _magnitude(theirs, found)
    a, b, rank = first.a, whole[..., rows, :], first.a.size(-2)
    own = slice(number * dim, (number + 1) * dim)
    magnitude = None if lengths is None else lengths[..., rows]
    if rank == dim:
        return Factors(a, b, magnitude)
    if len(layer.theirs) == 1 and rank == dim * len(parts) and b[..., own].count_nonzero() == b.count_nonzero():
        return Factors(a[..., own, :], b[..., own], magnitude)
    raise RunRefused(f"{sources[0].name} has rank {rank} and not {dim}; adapters have one rank here (peft.dim)")


def _sources(layer: Layer, model: ModelConfig, part: str) -> list[Theirs]:
    """The modules of theirs that have rows of a part."""
    rows = part_rows(layer.linear, part, model)
    return [theirs for theirs in layer.theirs if torch.isin(theirs.rows, rows).any()]


def _magnitude(theirs: Theirs, found: Mapping[str, Factors]) -> Tensor:
    magnitude = found[theirs.name].magnitude
    if magnitude is None:
        raise RunRefused(f"{theirs.name} has no lora_magnitude_vector, and others have one")
    return magnitude


def _share_an_a(factors: Sequence[Factors]) -> bool:
    return all(torch.equal(one.a, factors[0].a) for one in factors)
