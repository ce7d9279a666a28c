"""The weights of a Hugging Face directory under our names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from trainwright.runner.checkpoints.weights import Weight
from trainwright.runner.errors import RunRefused
from trainwright.runner.huggingface.families import family_of_folder
from trainwright.runner.huggingface.folder import HuggingFaceFolder
from trainwright.runner.huggingface.parts import THEIR_EMBEDDING, THEIR_OUTPUT
from trainwright.runner.huggingface.quantised import PLAIN, Source
from trainwright.runner.huggingface.rules import Rule, require_exact_cover

NO_WEIGHTS = re.compile(r"\.rotary_emb\.inv_freq$")
"""Tensors that old files hold and that follow from the configuration."""


class HuggingFaceWeights:
    """A `Weights` over a folder; opening it reads no weights."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            RunRefused: the folder is damaged, of an unknown family, or does not hold exactly that model's tensors.
        """
        self.path = path
        self.folder = HuggingFaceFolder(path)
        self.family, self.model, remarks = family_of_folder(self.folder)
        self.source = Source(self.folder)
        self.kind = f"Hugging Face directory, {self.family.model_type}"
        self.remarks = [f"config.json: {remark}" for remark in remarks]
        if self.source.method is not None:
            self.remarks.append(f"{self.source.method} weights are read as bfloat16")
        self.rules = self.family.rules(self.model)
        held = {name: shape for name, shape in self.source.shapes.items() if not NO_WEIGHTS.search(name)}
        self._leave_out_copies(held)
        require_exact_cover((slot for rule in self.rules for slot in rule.theirs), held, where=path)

    def _leave_out_copies(self, held: dict[str, tuple[int, ...]]) -> None:
        """Some are published with a tensor a second time, tied models with the embedding as the output layer."""
        copies = self.family.copies(self.model)
        if self.model.share_embeddings_and_output_weights:
            copies[THEIR_OUTPUT] = THEIR_EMBEDDING
        for copy, original in copies.items():
            if not {copy, original} <= held.keys():
                continue
            if held[copy] != held[original] or not torch.equal(self.folder.tensor(copy), self.folder.tensor(original)):
                raise RunRefused(f"{self.path}: {copy} has to repeat {original}, and the two differ")
            del held[copy]
            self.remarks.append(f"{copy} is left out: it repeats {original}")

    @cached_property
    def _by_name(self) -> dict[str, dict[int, Rule]]:
        found: dict[str, dict[int, Rule]] = {}
        for rule in self.rules:
            found.setdefault(rule.ours.name, {})[rule.ours.index or 0] = rule
        return found

    @cached_property
    def held(self) -> dict[str, Weight]:
        return {
            name: self._weight([rule for _, rule in sorted(rules.items())]) for name, rules in self._by_name.items()
        }

    def _weight(self, rules: list[Rule]) -> Weight:
        shape = rules[0].ours.whole_shape
        types = {getattr(torch, PLAIN[self.source.types[slot.name]]) for rule in rules for slot in rule.theirs}
        dtype = types.pop()
        for other in types:
            dtype = torch.promote_types(dtype, other)
        if rules[0].ours.index is None:
            return Weight(shape, dtype, (((0,) * len(shape), shape),))
        return Weight(
            shape, dtype, tuple(((index, *(0,) * (len(shape) - 1)), (1, *shape[1:])) for index in range(shape[0]))
        )

    def block(self, name: str, offsets: Sequence[int], sizes: Sequence[int]) -> Tensor:
        rules = self._by_name[name]
        if rules[0].ours.index is None:
            return rules[0].block([self.source.part(slot) for slot in rules[0].theirs], offsets, sizes)
        return torch.stack([
            rules[index].block([self.source.part(slot) for slot in rules[index].theirs], offsets[1:], sizes[1:])
            for index in range(offsets[0], offsets[0] + sizes[0])
        ])  # fmt: skip
