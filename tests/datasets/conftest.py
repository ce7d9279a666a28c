"""Small configurations and corpora for the tests of `trainwright.datasets`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwright.recipes.config import ConfigContainer


@pytest.fixture
def make_config() -> Callable[..., ConfigContainer]:
    """A whole configuration from what its dataset, tokenizer, train and validation sections say."""

    def make(
        tokenizer: dict[str, Any] | None = None,
        train: dict[str, Any] | None = None,
        validation: dict[str, Any] | None = None,
        **dataset: Any,
    ) -> ConfigContainer:
        return ConfigContainer.model_validate(
            {
                "model": {"num_layers": 2, "hidden_size": 16, "num_attention_heads": 2},
                "train": {"train_iters": 10, "global_batch_size": 8, "micro_batch_size": 2} | (train or {}),
                "validation": validation or {},
                "optimizer": {"lr": 1e-3},
                "dataset": {"seq_length": 16, "num_workers": 0} | dataset,
                "tokenizer": tokenizer or {"tokenizer_type": "ByteLevelTokenizer"},
            }
        )

    return make


@pytest.fixture
def write_pair(tmp_path: Path) -> Callable[..., str]:
    """Write documents as `NAME.bin`/`NAME.idx` with Megatron Core's own builder; returns the prefix."""

    def write(name: str, documents: Sequence[Sequence[int]], dtype: type = np.uint16) -> str:
        import torch
        from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

        prefix = str(tmp_path / name)
        builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=dtype)
        for document in documents:
            builder.add_document(torch.tensor(document), [len(document)])
        builder.finalize(f"{prefix}.idx")
        return prefix

    return write


@pytest.fixture
def random_documents() -> Callable[..., list[list[int]]]:
    """`count` byte-level documents of 1 to `longest` tokens, each with its end of document."""

    def make(count: int, longest: int = 60, seed: int = 0) -> list[list[int]]:
        random = np.random.default_rng(seed)
        return [[*random.integers(0, 256, random.integers(0, longest)).tolist(), 256] for _ in range(count)]

    return make
