"""A fingerprint is that of the values: one for all files that hold them, another as soon as one of them changes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tests.runner.huggingface_models import MODELS
from torch import Tensor

from trainwright.recipes.config.model import ModelConfig
from trainwright.runner.checkpoints.conversion import import_huggingface, open_weights
from trainwright.runner.checkpoints.fingerprint import combined, digests, fingerprint
from trainwright.runner.checkpoints.weights import Weight
from trainwright.runner.huggingface.parts import EMBEDDING


@dataclass
class InMemory:
    """A `Weights` over tensors."""

    tensors: dict[str, Tensor]
    model: ModelConfig | None = None
    path: Path = Path("memory")
    kind: str = "tensors"
    remarks: list[str] = field(default_factory=list)

    @property
    def held(self) -> dict[str, Weight]:
        return {name: Weight(tuple(tensor.shape), tensor.dtype, ()) for name, tensor in self.tensors.items()}

    def block(self, name: str, offsets: Sequence[int], sizes: Sequence[int]) -> Tensor:
        part = self.tensors[name]
        for dimension, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
            part = part.narrow(dimension, offset, size)
        return part


def of(**tensors: Tensor) -> str:
    return fingerprint(InMemory(tensors))


@pytest.mark.parametrize("family", ["llama", "qwen3_moe", "gpt_oss", "deepseek"])
def test_a_directory_and_what_was_imported_from_it_have_one(family: str, tmp_path: Path) -> None:
    """Stacked experts, transposed ones and joined projections among them; bfloat16 as published models are."""
    torch.manual_seed(0)
    MODELS[family]().bfloat16().save_pretrained(tmp_path / "source")
    import_huggingface(tmp_path / "source", tmp_path / "native", lambda _: None)
    read: list[int] = []
    first, second = (open_weights(tmp_path / name) for name in ("source", "native"))
    assert fingerprint(first, read.append) == fingerprint(second)
    assert sum(read) == 2 * sum(torch.Size(weight.shape).numel() for weight in first.held.values())


def test_one_changed_number_changes_it(tmp_path: Path) -> None:
    MODELS["llama"]().save_pretrained(tmp_path)
    before = fingerprint(open_weights(tmp_path))
    tensors = load_file(tmp_path / "model.safetensors")
    row = tensors["model.layers.2.self_attn.k_proj.weight"][7]
    row[3] = torch.nextafter(row[3], torch.tensor(9.0))
    save_file(tensors, tmp_path / "model.safetensors")
    assert fingerprint(open_weights(tmp_path)) != before


@given(st.lists(st.integers(1, 4), min_size=0, max_size=3))
def test_memory_layout_is_no_part_of_it_and_names_shapes_and_types_are(shape: list[int]) -> None:
    tensor = torch.rand(shape)
    backwards = tuple(reversed(range(len(shape))))
    turned = tensor.permute(backwards).contiguous().permute(backwards)
    assert of(a=tensor) == of(a=turned)
    others = [of(b=tensor), of(a=tensor[None]), of(a=tensor.double()), of(a=tensor, b=tensor)]
    assert len({of(a=tensor), *others}) == 5


@given(st.integers(1, 5), st.integers(0, 4))
def test_rows_that_pad_the_vocabulary_are_no_part_of_it(tokens: int, padding: int) -> None:
    rows = torch.rand(tokens, 2)
    model = ModelConfig(num_layers=1, hidden_size=2, num_attention_heads=1, vocab_size=tokens)
    padded = InMemory({EMBEDDING: torch.cat([rows, torch.zeros(padding, 2)])}, model)
    assert fingerprint(padded) == fingerprint(InMemory({EMBEDDING: rows}, model))


@given(st.permutations(list("abcdef")), st.integers(0, 6))
def test_processes_that_share_the_work_find_the_same(order: list[str], first: int) -> None:
    weights = InMemory({name: torch.full((2, 3), float(ord(name))) for name in "abcdef"})
    parts = digests(weights, order[first:]) | digests(weights, order[:first])
    assert combined(parts) == fingerprint(weights)
