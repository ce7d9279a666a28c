"""The weights of a native checkpoint, read without Megatron's parallel state."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, TensorStorageMetadata
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list

from trainwright.runner.checkpoints.loading import read_common, refusing, written_with
from trainwright.runner.checkpoints.weights import Weight
from trainwright.runner.errors import RunRefused
from trainwright.runner.models.layer_pattern import LAYERS_PER_BLOCK

if TYPE_CHECKING:
    from trainwright.recipes import ConfigContainer
    from trainwright.recipes.config.model import ModelConfig

ADAPTER = ".adapter."
"""Stands in the names of all parameters of adapters, and in no other."""
OPTIMIZER = ("optimizer.", "chained_")
"""How names of an optimizer's tensors begin."""
FINAL_NORM, FINAL_NORM_OF_GPT = "decoder.final_norm.", "decoder.final_layernorm."
GPT_LAYER = re.compile(r"decoder\.layers\.(?:(\d+)\.)?(.+)")
ROUTER = "mlp.router.weight"
NORM_BEFORE_EXPERTS = "mlp.linear_fc1.layer_norm_", "pre_mlp_layernorm."
"""As `GPTModel`'s own layers call it, and as all others do."""
OF_ATTENTION = ("self_attention.", "input_layernorm.")


@dataclass(frozen=True)
class Stored:
    """Where a parameter is: under which name, and at which place of a first dimension that holds all layers."""

    name: str
    layer: int | None = None


class NativeWeights:
    """A `Weights` over one `torch_dist` checkpoint, of `HybridModel` or of `GPTModel`."""

    def __init__(self, path: Path, only: Literal["adapters", "model"] | None = None) -> None:
        """Of all parameters, or only of adapters' or the model's own.

        Raises:
            RunRefused: there is no readable checkpoint.
        """
        self.path = path
        self.remarks: list[str] = []
        with refusing(path):
            if not (path / ".metadata").is_file():
                raise FileNotFoundError("it has no file .metadata")
            self._reader = FileSystemReader(path)
            metadata = self._reader.read_metadata()
            self._reader.set_up_storage_reader(metadata, is_coordinator=True)
            missing = sorted({str(info.relative_path) for info in metadata.storage_data.values()} - _files(path))
            if missing:
                raise FileNotFoundError(f"it lacks the file {missing[0]} ({len(missing)} in all)")
        self._tensors = {
            name: entry
            for name, entry in metadata.state_dict_metadata.items()
            if isinstance(entry, TensorStorageMetadata)
            and not name.startswith(OPTIMIZER)
            and only in (None, "adapters" if ADAPTER in name else "model")
        }
        self.of_gpt = any(name.startswith(FINAL_NORM_OF_GPT) for name in self._tensors)
        self.kind = "native checkpoint of " + ("GPTModel" if self.of_gpt else "HybridModel")
        self._stored = hybrid_names(self._tensors) if self.of_gpt else {name: Stored(name) for name in self._tensors}

    @cached_property
    def common(self) -> dict[str, Any] | None:
        """What this program wrote beside the weights; null where another one wrote the checkpoint."""
        try:
            found: dict[str, Any] = read_common(self.path)["trainwright"]
        except RunRefused:
            return None
        return found

    @cached_property
    def run(self) -> ConfigContainer | None:
        """The configuration of the run that wrote it; null where none did."""
        return (
            written_with(self.path, {"trainwright": self.common}) if self.common and "config" in self.common else None
        )

    @cached_property
    def model(self) -> ModelConfig | None:
        """Of the run, or of the directory that was imported; with what it left to its tokenizer and data."""
        from trainwright.recipes.config.model import ModelConfig

        if self.run is not None:
            model = self.run.model
            tokens = model.vocab_size or (self.common or {}).get("vocab_size") or self.run.tokenizer.vocab_size
            positions = model.max_position_embeddings or model.seq_length
            return model.model_copy(update={"vocab_size": tokens, "max_position_embeddings": positions})
        return ModelConfig.model_validate(self.common["model"]) if self.common else None

    @cached_property
    def held(self) -> dict[str, Weight]:
        return {name: self._weight(stored) for name, stored in self._stored.items()}

    def _weight(self, stored: Stored) -> Weight:
        entry = self._tensors[stored.name]
        boxes = [(tuple(chunk.offsets), tuple(chunk.sizes)) for chunk in entry.chunks]
        shape = tuple(entry.size)
        if stored.layer is not None:
            boxes = [(offsets[1:], sizes[1:]) for offsets, sizes in boxes if offsets[0] == stored.layer]
            shape = shape[1:]
        return Weight(shape, entry.properties.dtype, tuple(boxes))

    def block(self, name: str, offsets: Sequence[int], sizes: Sequence[int]) -> Tensor:
        stored = self._stored[name]
        if stored.layer is not None:
            return self._block(stored.name, (stored.layer, *offsets), (1, *sizes))[0]
        return self._block(stored.name, offsets, sizes)

    def _block(self, name: str, offsets: Sequence[int], sizes: Sequence[int]) -> Tensor:
        entry = self._tensors[name]
        target = torch.empty(tuple(sizes), dtype=entry.properties.dtype)
        wanted = ChunkStorageMetadata(offsets=torch.Size(offsets), sizes=torch.Size(sizes))
        plan = LoadPlan(create_read_items_for_chunk_list(name, entry, [wanted]))
        with refusing(self.path):
            self._reader.read_data(plan, _IntoOne(target)).wait()
        return target


class _IntoOne(LoadPlanner):  # type: ignore[misc]  # torch's class is untyped
    """Puts all that is read into one tensor."""

    def __init__(self, target: Tensor) -> None:
        self.target = target

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        part = self.target
        for dimension, (start, length) in enumerate(zip(read_item.dest_offsets, read_item.lengths, strict=True)):
            part = part.narrow(dimension, start, length)
        return part

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        pass

    def set_up_planner(self, *args: Any, **kwargs: Any) -> None:
        # What torch calls to make a plan; here the plan is made already, and read_data alone is called.
        raise NotImplementedError

    create_local_plan = create_global_plan = finish_plan = load_bytes = set_up_planner


def hybrid_names(tensors: dict[str, TensorStorageMetadata]) -> dict[str, Stored]:
    """Where `HybridModel`'s parameters are in a checkpoint that `GPTModel` wrote.

    Its block `i` is our layers `2 i` and `2 i + 1`. Blocks that are all alike are stored together, each parameter of
    all of them in one tensor, unless the checkpoint was told otherwise.
    """
    found: dict[str, Stored] = {}
    for name, entry in tensors.items():
        layer = GPT_LAYER.fullmatch(name)
        if layer is None:
            found[name.replace(FINAL_NORM_OF_GPT, FINAL_NORM)] = Stored(name)
            continue
        number, rest = layer.groups()
        place = 0 if rest.startswith(OF_ATTENTION) else 1
        if name.removesuffix(rest) + ROUTER in tensors:
            rest = rest.replace(*NORM_BEFORE_EXPERTS)
        blocks = range(entry.size[0]) if number is None else [int(number)]
        for block in blocks:
            hybrid = f"decoder.layers.{LAYERS_PER_BLOCK * block + place}.{rest}"
            found[hybrid] = Stored(name, block if number is None else None)
    return found


def _files(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}
