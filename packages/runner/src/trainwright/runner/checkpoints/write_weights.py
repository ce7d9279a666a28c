"""A native checkpoint of weights alone, written without building a model: one rectangle in memory at a time."""

from __future__ import annotations

import io
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import torch
from torch import Tensor
from torch.distributed.checkpoint import FileSystemWriter, save
from torch.distributed.checkpoint.default_planner import create_default_global_save_plan
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

if TYPE_CHECKING:
    from trainwright.runner.checkpoints.weights import Box, Weight, Weights

COMMON = "common_state/shard_0_1"
"""Under which Megatron Core keeps what is the same for all ranks."""
LARGEST_FILE = 5 * 1000**3
"""Bytes after which another file is begun."""
BACKEND = {"sharded_backend": "torch_dist", "sharded_backend_version": 1}

Progress = Callable[[int], None]
"""Called with the bytes that have just been written."""


def write_weights(weights: Weights, folder: Path, common: dict[str, Any], progress: Progress) -> None:
    """Write every parameter into `folder`, which is there and empty, and `common` beside them."""
    planner = _Planner(weights, common, progress)
    with warnings.catch_warnings():
        # torch remarks that there are no other ranks, as asked, and that its own calls are old.
        warnings.filterwarnings("ignore", module=r"torch\.")
        save({}, storage_writer=_OneAtATime(folder), planner=planner, no_dist=True)
    (folder / "metadata.json").write_text(json.dumps(BACKEND))


class _OneAtATime(FileSystemWriter):  # type: ignore[misc]  # torch's class is untyped
    """`FileSystemWriter` in its own format, without keeping every tensor until the end of its file."""

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        results: list[WriteResult] = []
        items = list(plan.items)
        while items:
            name = f"{plan.storage_data.prefix}{len({result.storage_data.relative_path for result in results})}.distcp"
            with open(Path(self.path) / name, "wb") as stream:
                while items and stream.tell() < LARGEST_FILE:
                    results.append(_write(stream, name, items.pop(0), planner))
                stream.flush()
                os.fsync(stream.fileno())
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done


def _write(stream: BinaryIO, name: str, item: WriteItem, planner: SavePlanner) -> WriteResult:
    begin, data = stream.tell(), planner.resolve_data(item)
    if isinstance(data, Tensor):
        torch.save(data, stream)
    else:
        stream.write(data.getbuffer())
    length = stream.tell() - begin
    return WriteResult(index=item.index, size_in_bytes=length, storage_data=_StorageInfo(name, begin, length))


class _Planner(SavePlanner):  # type: ignore[misc]  # torch's class is untyped
    """Says what is to be written, and reads it from the source when its turn comes."""

    def __init__(self, weights: Weights, common: dict[str, Any], progress: Progress) -> None:
        self.weights, self.common, self.progress = weights, common, progress
        self.boxes: dict[MetadataIndex, Box] = {}

    def set_up_planner(self, *args: Any, **kwargs: Any) -> None:
        pass

    def create_local_plan(self) -> SavePlan:
        items = [WriteItem(index=MetadataIndex(COMMON), type=WriteItemType.BYTE_IO)]
        for name, weight in self.weights.held.items():
            for box in weight.boxes:
                item = _write_item(name, weight, box)
                self.boxes[item.index] = box
                items.append(item)
        return SavePlan(items)

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        plans, metadata = create_default_global_save_plan(all_plans)
        return plans, metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        if write_item.type == WriteItemType.BYTE_IO:
            stream = io.BytesIO()
            torch.save([self.common], stream)
            stream.seek(0)
            return stream
        part = self.weights.block(write_item.index.fqn, *self.boxes[write_item.index]).contiguous()
        if part.untyped_storage().nbytes() != part.nbytes:
            part = part.clone()  # or all that it is a view of would be saved
        self.progress(part.nbytes)
        return part


def _write_item(name: str, weight: Weight, box: Box) -> WriteItem:
    offsets, sizes = (torch.Size(numbers) for numbers in box)
    properties = TensorProperties(dtype=weight.dtype)
    data = TensorWriteData(ChunkStorageMetadata(offsets, sizes), properties, torch.Size(weight.shape))
    return WriteItem(index=MetadataIndex(name, offsets), type=WriteItemType.SHARD, tensor_data=data)
