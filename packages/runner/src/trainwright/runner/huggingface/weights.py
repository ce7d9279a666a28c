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
from trainwright.runner.huggingface.rules import Rule, Slot, require_exact_cover, some

NO_WEIGHTS = re.compile(r"\.rotary_emb\.inv_freq$")
"""Tensors that old files hold and that follow from the configuration."""
OUTPUT, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}
"""Types that weights come in, as safetensors names them."""


class HuggingFaceWeights:
    """A `Weights` over a folder; opening it reads no weights."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            RunRefused: the folder is damaged, of an unknown family, or does not hold exactly that model's tensors.
        """
        self.path = path
        self.folder = HuggingFaceFolder(path)
        self.family, self.model, unread = family_of_folder(self.folder)
        self.kind = f"Hugging Face directory, {self.family.model_type}"
        self.remarks = [f"config.json: not read: {', '.join(unread)}"] if unread else []
        self.rules = self.family.rules(self.model)
        held = {name: shape for name, shape in self.folder.shapes.items() if not NO_WEIGHTS.search(name)}
        self._leave_out_copy(held)
        require_exact_cover((slot for rule in self.rules for slot in rule.theirs), held, where=path)
        other = sorted(name for name in held if self.folder.tensors[name][1] not in DTYPES)
        if other:
            dtypes = sorted({self.folder.tensors[name][1] for name in other})
            raise RunRefused(f"{path}: weights of type {', '.join(dtypes)} are not known here: {some(other)}")

    def _leave_out_copy(self, held: dict[str, tuple[int, ...]]) -> None:
        """Tied models are also published with the embedding a second time, as the output layer."""
        if not (self.model.share_embeddings_and_output_weights and {OUTPUT, EMBEDDING} <= held.keys()):
            return
        if held[OUTPUT] != held[EMBEDDING] or not torch.equal(
            self.folder.tensor(OUTPUT), self.folder.tensor(EMBEDDING)
        ):
            raise RunRefused(f"{self.path}: config.json ties {OUTPUT} to {EMBEDDING}, and the two differ")
        del held[OUTPUT]
        self.remarks.append(f"{OUTPUT} is left out: it repeats {EMBEDDING}")

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
        types = {DTYPES[self.folder.tensors[slot.name][1]] for rule in rules for slot in rule.theirs}
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
            return rules[0].block([self._part(slot) for slot in rules[0].theirs], offsets, sizes)
        return torch.stack([
            rules[index].block([self._part(slot) for slot in rules[index].theirs], offsets[1:], sizes[1:])
            for index in range(offsets[0], offsets[0] + sizes[0])
        ])  # fmt: skip

    def _part(self, slot: Slot) -> Tensor:
        whole = self.folder.tensor(slot.name)
        return whole if slot.index is None else whole[slot.index]
