"""A Hugging Face directory from the weights of any checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from trainwright.runner.huggingface.parts import VOCABULARY
from trainwright.runner.huggingface.rules import Rule, require_exact_cover
from trainwright.runner.huggingface.safetensors_file import Planned, write_safetensors

if TYPE_CHECKING:
    from torch import Tensor

    from trainwright.runner.checkpoints.weights import Weights

ALWAYS = "mlp.router.expert_bias"
"""A parameter that keeps its type: it counts in small steps."""


def export_weights(
    weights: Weights,
    rules: list[Rule],
    folder: Path,
    *,
    copies: Mapping[str, str],
    dtype: torch.dtype | None,
    progress: Callable[[int], None],
    largest: int,
) -> None:
    """Write the tensors that `rules` make of `weights` into `folder`, in the type they have or in `dtype`.

    `copies` are names of tensors that are written a second time, with the first one's. Rows that pad the vocabulary are
    left out. In memory are one tensor of theirs and one of ours.

    Raises:
        RunRefused: the checkpoint holds more or fewer parameters than the rules take, or of other shapes.
    """
    require_parameters(weights, rules)
    planned: dict[str, Planned] = {}
    makers: dict[str, list[tuple[Rule, int]]] = {}
    for rule in rules:
        for place, slot in enumerate(rule.theirs):
            own = weights.held[rule.ours.name].dtype
            planned[slot.name] = Planned(slot.whole_shape, own if rule.ours.name.endswith(ALWAYS) else dtype or own)
            makers.setdefault(slot.name, []).append((rule, place))
    for copy, original in copies.items():
        planned[copy], makers[copy] = planned[original], makers[original]
    reader = _Reader(weights)

    def tensor(name: str) -> Tensor:
        made = reader.tensor(makers[name])
        progress(made.numel() * planned[name].dtype.itemsize)
        return made

    write_safetensors(folder, planned, tensor, largest=largest)


class _Reader:
    """Makes tensors of theirs; what one read of ours gives several of them is read once."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self._rule: Rule | None = None
        self._parts: dict[int, Tensor] = {}

    def tensor(self, makers: list[tuple[Rule, int]]) -> Tensor:
        if makers[0][0].theirs[makers[0][1]].index is None:
            return self._part(*makers[0])
        first = makers[0][0].theirs[makers[0][1]]
        whole = torch.empty(first.whole_shape, dtype=self.weights.held[makers[0][0].ours.name].dtype)
        for rule, place in makers:
            whole[rule.theirs[place].index] = self._part(rule, place)
        return whole

    def _part(self, rule: Rule, place: int) -> Tensor:
        if self._rule is not rule or place not in self._parts:
            self._parts = {}  # before the next ones are there
            self._rule, self._parts = rule, dict(enumerate(rule.split(self._ours(rule))))
        return self._parts.pop(place)

    def _ours(self, rule: Rule) -> Tensor:
        slot = rule.ours
        zeros = (0,) * len(slot.shape)
        if slot.index is None:
            return self.weights.block(slot.name, zeros, slot.shape)
        return self.weights.block(slot.name, (slot.index, *zeros), (1, *slot.shape))[0]


def require_parameters(weights: Weights, rules: list[Rule]) -> None:
    """Find out whether the checkpoint holds exactly the parameters of `rules`, the vocabulary maybe padded.

    Raises:
        RunRefused: it does not.
    """
    rows = {rule.ours.name: rule.ours.whole_shape[0] for rule in rules}
    shapes = {}
    for name, weight in weights.held.items():
        padded = name in VOCABULARY and name in rows and weight.shape[0] >= rows[name]
        shapes[name] = (rows[name], *weight.shape[1:]) if padded else weight.shape
    require_exact_cover((rule.ours for rule in rules), shapes, where=weights.path)
