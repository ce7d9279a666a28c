"""Samples are Megatron Core's own, for one prefix, blends and per-split prefixes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainwright.datasets import DataError, build_datasets, build_tokenizer
from trainwright.recipes.config import ConfigContainer

MakeConfig = Callable[..., ConfigContainer]
WritePair = Callable[..., str]


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


def build(config: ConfigContainer, train: int, valid: int) -> tuple[Any, Any]:
    return build_datasets(config, build_tokenizer(config.tokenizer), train_samples=train, valid_samples=valid)


def rows(dataset: Any, count: int) -> list[list[int]]:
    return [dataset[i]["tokens"].tolist() for i in range(count)]


@pytest.fixture
def indexed(make_config: MakeConfig, tmp_path: Path) -> MakeConfig:
    def make(**words: Any) -> ConfigContainer:
        return make_config(**{"kind": "megatron-indexed", "path_to_cache": str(tmp_path / "cache")} | words)

    return make


@pytest.mark.parametrize(("train", "valid"), [(20, 10), (500, 90)], ids=["within one pass", "several passes"])
def test_one_prefix_gives_the_samples_of_megatron_core(
    indexed: MakeConfig, write_pair: WritePair, tmp_path: Path, random_documents: Any, train: int, valid: int
) -> None:
    """Also the lengths, so that a run that is made longer goes on in the same order."""
    prefix = write_pair(tmp_path / "corpus", random_documents(100))
    config = indexed(data_path=prefix, split="70,20,10")
    ours = build(config, train, valid)
    theirs = reference(config, train, valid, blend=([prefix], None), split="70,20,10")
    assert len(ours[0]) == len(theirs[0]) >= train
    assert rows(ours[0], train) == rows(theirs[0], train)
    assert rows(ours[1], valid) == rows(theirs[1], valid)


@pytest.mark.parametrize("train", [40, 900], ids=["within one pass", "several passes"])
def test_a_weighted_blend_gives_the_samples_of_megatron_core(
    indexed: MakeConfig, write_pair: WritePair, tmp_path: Path, random_documents: Any, train: int
) -> None:
    """In all the ways to write one."""
    a, b = write_pair(tmp_path / "a", random_documents(80)), write_pair(tmp_path / "b", random_documents(50, seed=1))
    theirs = reference(indexed(data_path=a), train, 4, blend=([a, b], [0.3, 0.7]), split="90,10,0")
    for data_path in ([0.3, a, 0.7, b], f"0.3 {a} 0.7 {b}", [3, a, "7", b]):
        ours = build(indexed(data_path=data_path, split="90,10,0"), train, 4)
        assert len(ours[0]) == len(theirs[0])
        assert rows(ours[0], train) == rows(theirs[0], train)


def test_per_split_prefixes_give_the_samples_of_megatron_core(
    indexed: MakeConfig, write_pair: WritePair, tmp_path: Path, random_documents: Any
) -> None:
    a, b = write_pair(tmp_path / "a", random_documents(80)), write_pair(tmp_path / "b", random_documents(50, seed=1))
    config = indexed(train_data_path=a, valid_data_path=[b], split=None)
    ours, theirs = build(config, 30, 9), reference(config, 30, 9, blend_per_split=[([a], None), ([b], None), None])
    assert rows(ours[0], 30) == rows(theirs[0], 30)
    assert rows(ours[1], 9) == rows(theirs[1], 9)


def test_a_list_without_weights_reads_everything_once_before_it_repeats(
    indexed: MakeConfig, write_pair: WritePair, tmp_path: Path, random_documents: Any
) -> None:
    a, b = write_pair(tmp_path / "a", random_documents(80)), write_pair(tmp_path / "b", random_documents(50, seed=1))
    config = indexed(data_path=[a, b], split="1")
    one_pass = sum(len(build(indexed(data_path=prefix, split="1"), 1, 0)[0]) for prefix in (a, b))
    train, _ = build(config, one_pass, 0)
    assert len({tuple(row) for row in rows(train, one_pass)}) == one_pass == len(train)
    assert rows(build(config, 5, 0)[0], one_pass) == rows(train, one_pass)
    longer, _ = build(config, 3 * one_pass, 0)
    assert len(longer) >= 3 * one_pass
    assert longer.samples_per_epoch == train.samples_per_epoch == one_pass


def test_a_longer_run_goes_on_in_the_order_of_the_shorter_one(
    indexed: MakeConfig, write_pair: WritePair, random_documents: Any, tmp_path: Path
) -> None:
    """As long as one pass of the data is enough for both."""
    a, b = write_pair(tmp_path / "a", random_documents(80)), write_pair(tmp_path / "b", random_documents(80, seed=1))
    for data_path in (a, [a, b], [0.5, a, 0.5, b]):
        config = indexed(data_path=data_path, split="1")
        assert rows(build(config, 60, 0)[0], 20) == rows(build(config, 20, 0)[0], 20)


def test_cyclic_gets_one_pass(
    indexed: MakeConfig, write_pair: WritePair, random_documents: Any, tmp_path: Path
) -> None:
    """Its loader repeats it; a blend is as long as its parts together, in the proportions asked for."""
    a, b = write_pair(tmp_path / "a", random_documents(80)), write_pair(tmp_path / "b", random_documents(50, seed=1))
    single, _ = build(indexed(data_path=a, split="1", dataloader_type="cyclic"), 10_000, 0)
    assert len(single) == single.samples_per_epoch
    both, _ = build(indexed(data_path=[a, b], split="1", dataloader_type="cyclic"), 10_000, 0)
    weighted, _ = build(indexed(data_path=[1, a, 1, b], split="1", dataloader_type="cyclic"), 10_000, 0)
    assert len(weighted) in (len(both), len(both) + 1)
    assert weighted.samples_per_epoch is None


def test_mock_data_follows_the_split(make_config: MakeConfig) -> None:
    """And needs no file; tokens are below the vocabulary."""
    config = make_config(tokenizer={"tokenizer_type": "NullTokenizer", "vocab_size": 50}, split="98,2", seq_length=512)
    train, valid = build(config, 10, 10)
    assert len(train) > 20 * len(valid) > 0
    assert max(max(row) for row in rows(train, 10)) < 50


def test_labels_are_the_tokens_shifted_by_one_and_no_byte_is_masked(
    indexed: MakeConfig, write_pair: WritePair, tmp_path: Path
) -> None:
    """A NUL byte is text as well: nothing stands for padding."""
    prefix = write_pair(tmp_path / "corpus", [[0, 1, 2, 0, 256] * 20])
    sample = build(indexed(data_path=prefix, split="1", seq_length=8), 1, 0)[0][0]
    assert sample["tokens"][1:].tolist() == sample["labels"][:-1].tolist()
    assert sample["loss_mask"].tolist() == [1.0] * 8
    assert sample["position_ids"].tolist() == list(range(8))


def test_eod_mask_and_position_reset_reach_megatron_core(
    indexed: MakeConfig, write_pair: WritePair, tmp_path: Path
) -> None:
    prefix = write_pair(tmp_path / "corpus", [[7, 256] * 20])
    config = indexed(data_path=prefix, split="1", seq_length=4, eod_mask_loss=True, reset_position_ids=True)
    sample = build(config, 1, 0)[0][0]
    is_end = [token == 256 for token in sample["tokens"].tolist()]
    assert sample["loss_mask"].tolist() == [0.0 if end else 1.0 for end in is_end]
    assert max(sample["position_ids"].tolist()) == 1


def test_the_cache_is_found_again_and_new_content_is_never_served_from_it(
    indexed: MakeConfig, write_pair: WritePair, random_documents: Any, tmp_path: Path
) -> None:
    """Same path, same times, same sizes: other content, other entry."""
    import os

    prefix = write_pair(tmp_path / "corpus", [[1] * 20 + [256], [2] * 30 + [256]] * 4)
    config, cache = indexed(data_path=prefix, split="1"), tmp_path / "cache"
    before = rows(build(config, 6, 0)[0], 6)
    entries = set(os.listdir(cache))
    assert rows(build(config, 6, 0)[0], 6) == before
    assert set(os.listdir(cache)) == entries
    times = os.stat(f"{prefix}.idx")
    write_pair(tmp_path / "corpus", [[2] * 30 + [256], [1] * 20 + [256]] * 4)
    os.utime(f"{prefix}.idx", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert rows(build(config, 6, 0)[0], 6) != before
    assert len(set(os.listdir(cache)) - entries) == 1


def test_a_damaged_cache_entry_is_replaced(
    indexed: MakeConfig, write_pair: WritePair, random_documents: Any, tmp_path: Path
) -> None:
    prefix = write_pair(tmp_path / "corpus", random_documents(40))
    config = indexed(data_path=prefix, split="1")
    before = rows(build(config, 6, 0)[0], 6)
    (damaged,) = (tmp_path / "cache").glob("*/sample_index.npy")
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert rows(build(config, 6, 0)[0], 6) == before
    assert damaged.stat().st_size > 100
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [damaged.parent.name]


def test_a_split_without_one_whole_sample_is_refused_with_its_numbers(
    indexed: MakeConfig, write_pair: WritePair, tmp_path: Path
) -> None:
    """Megatron Core would loop for ever on no documents, and mix one document with itself on too few tokens."""
    prefix = write_pair(tmp_path / "corpus", [[1, 2, 3, 256]] * 50)
    with pytest.raises(
        DataError, match=r"the valid split \(dataset.split='99,1'\) has 0 of the 50 sequences .* 0 tokens"
    ):
        build(indexed(data_path=prefix, split="99,1"), 1, 1)
    with pytest.raises(DataError, match="200 tokens; one sample takes 513"):
        build(indexed(data_path=prefix, split="1", seq_length=512), 1, 0)
