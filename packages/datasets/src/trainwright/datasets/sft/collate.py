"""Sequences of different lengths to one rectangle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from trainwright.datasets.sft.dataset import Sample
    from trainwright.recipes.config import ConfigContainer

Batch = dict[str, "torch.Tensor"]


def padded_length(config: ConfigContainer) -> tuple[int | None, int]:
    """The length of every row, where it is fixed, and the multiple that it has to be of.

    Fixed where `dataset_kwargs.pad_to_max_length` says so, and with pipeline parallelism: its stages agree on the
    shape of what they send each other before they run. Of rows packed in the batch they tell each other the lengths.
    """
    from trainwright.recipes.packing import alignment

    model, dataset = config.model, config.dataset
    staged = model.pipeline_model_parallel_size > 1 and not dataset.enable_in_batch_packing
    fixed = dataset.dataset_kwargs.get("pad_to_max_length") or staged
    multiple = alignment(
        model.tensor_model_parallel_size,
        model.context_parallel_size,
        model.sequence_parallel,
        fp8=config.mixed_precision.fp8 is not None,
    )
    return dataset.seq_length if fixed else None, multiple


def round_up(length: int, multiple: int) -> int:
    """The next multiple from `length` up."""
    return -(-length // multiple) * multiple


def pad(samples: Sequence[Sample], padding: int, size: int) -> Batch:
    """`{tokens, labels, position_ids: int64, loss_mask: float32}`, each of shape [samples, size].

    Padding stands at the end, without loss.
    """
    import numpy as np
    import torch

    tokens = np.full((len(samples), size), padding, dtype=np.int64)
    labels = tokens.copy()
    loss_mask = np.zeros((len(samples), size), dtype=np.float32)
    for row, sample in enumerate(samples):
        end = len(sample["tokens"])
        tokens[row, :end] = sample["tokens"]
        labels[row, :end] = sample["labels"]
        loss_mask[row, :end] = sample["loss_mask"]
    positions = np.tile(np.arange(size), (len(samples), 1))
    arrays = {"tokens": tokens, "labels": labels, "loss_mask": loss_mask, "position_ids": positions}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
