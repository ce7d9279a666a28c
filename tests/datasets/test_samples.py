"""Samples are Megatron Core's own, for one prefix, blends and per-split prefixes."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from trainwright.datasets import DataError, build_datasets, build_tokenizer
from trainwright.recipes.config import ConfigContainer


def reference(config: ConfigContainer, train: int, valid: int, **blend: Any) -> list[Any]:
    """What Megatron Core's builder makes of the same words."""
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig

    gpt_config = GPTDatasetConfig(
        random_seed=config.dataset.random_seed,
        sequence_length=config.dataset.seq_length,
        tokenizer=build_tokenizer(config.tokenizer),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
        path_to_cache=config.dataset.path_to_cache,
        **blend,
    )
    return BlendedMegatronDatasetBuilder(GPTDataset, [train, valid, 1], lambda: True, gpt_config).build()


def rows(dataset: Any, count: int) -> list[list[int]]:
    return [dataset[i]["tokens"].tolist() for i in range(count)]


@pytest.mark.parametrize(("train", "valid"), [(20, 10), (500, 90)], ids=["within one pass", "several passes"])
def test_one_prefix_gives_the_samples_of_megatron_core(
    make_config: Callable[..., ConfigContainer], write_pair: Callable[..., str], random_documents: Any, tmp_path: Any,
    train: int, valid: int,
) -> None:
    prefix = write_pair("corpus", random_documents(100))
    config = make_config(kind="megatron-indexed", data_path=prefix, split="70,20,10", path_to_cache=str(tmp_path / "c"))
    ours = build_datasets(config, build_tokenizer(config.tokenizer), train_samples=train, valid_samples=valid)
    theirs = reference(config, train, valid, blend=([prefix], None), split="70,20,10")
    assert len(ours[0]) == len(theirs[0]) >= train
    assert rows(ours[0], train) == rows(theirs[0], train)
    assert rows(ours[1], valid) == rows(theirs[1], valid)
