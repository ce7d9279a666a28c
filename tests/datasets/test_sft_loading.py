"""Rows from files to the micro-batches of every rank: order, division, resume, filling up, skipping."""

import itertools
import logging
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.datasets.sft_cases import BYTES, write_jsonl

from trainwright.datasets import DataError, build_datasets, build_loader
from trainwright.recipes.config import ConfigContainer

MakeConfig = Callable[..., ConfigContainer]


def row(number: int, size: int = 2) -> dict[str, str]:
    """A row whose first token is its number."""
    return {"input": chr(number), "output": "x" * (size + number % 5)}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """11 rows to train on and 3 held out."""
    root = tmp_path_factory.mktemp("sft")
    write_jsonl(root / "training.jsonl", [row(number) for number in range(11)])
    write_jsonl(root / "validation.jsonl", [row(number) for number in range(100, 103)])
    return root


@pytest.fixture(scope="session")
def sft_config(make_config: MakeConfig, folder: Path) -> MakeConfig:
    """A configuration of these rows."""

    def make(micro: int = 2, global_batch: int = 4, **words: Any) -> ConfigContainer:
        model = words.pop("model", {})
        dataset = {"kind": "local-jsonl", "split": None, "dataset_root": str(folder), "seq_length": 64, **words}
        train = {"train_iters": 1, "global_batch_size": global_batch, "micro_batch_size": micro}
        config = make_config(train=train, **dataset)
        return config.model_copy(update={"model": config.model.model_copy(update=model)})

    return make


def batches(
    config: ConfigContainer, *, consumed: int = 0, rank: int = 0, ranks: int = 1, valid: bool = False
) -> Iterator[dict[str, Any]]:
    datasets = build_datasets(config, BYTES, train_samples=1, valid_samples=int(valid))
    dataset = datasets[1] if valid else datasets[0]
    assert dataset is not None
    return build_loader(
        dataset,
        config,
        consumed_samples=consumed,
        data_parallel_rank=rank,
        data_parallel_size=ranks,
        micro_batch_size=config.train.micro_batch_size,
    )


def numbers(config: ConfigContainer, count: int, **words: Any) -> list[list[int]]:
    """The rows of each of `count` micro-batches."""
    found = itertools.islice(batches(config, **words), count)
    return [batch["tokens"][:, 0].tolist() for batch in found]


@settings(max_examples=25)
@given(
    ranks=st.sampled_from([1, 2, 4]),
    micro=st.integers(1, 2),
    loader=st.sampled_from(["single", "cyclic", "batch"]),
    drop_last=st.booleans(),
)
def test_every_row_comes_once_an_epoch_whatever_divides_them(
    sft_config: MakeConfig, ranks: int, micro: int, loader: str, drop_last: bool
) -> None:
    """Any data parallel size, micro-batch and loader give the same global batches in the same order."""
    config = sft_config(micro, 8, dataloader_type=loader, drop_last=drop_last)
    steps, share = 11, 8 // (micro * ranks)
    of_ranks = [numbers(config, steps * share, rank=rank, ranks=ranks) for rank in range(ranks)]
    whole = [
        [of_ranks[rank][step * share + m][i] for m in range(share) for rank in range(ranks) for i in range(micro)]
        for step in range(steps)
    ]
    alone = numbers(sft_config(8, 8, dataloader_type="single", drop_last=drop_last), steps)
    assert whole == alone
    rows = [number for step in whole for number in step]
    usable = 8 if drop_last else 11
    for epoch in range(len(rows) // usable):
        seen = rows[epoch * usable : (epoch + 1) * usable]
        assert len(set(seen)) == usable
    assert rows[:usable] != rows[usable : 2 * usable]


@settings(max_examples=20)
@given(consumed=st.integers(0, 12), rank=st.integers(0, 1), loader=st.sampled_from(["single", "batch"]))
def test_a_run_that_resumes_goes_on_as_if_it_had_not_stopped(
    sft_config: MakeConfig, consumed: int, rank: int, loader: str
) -> None:
    """At any global batch, also across the end of an epoch and exactly at one (44 samples)."""
    config = sft_config(1, 4, dataloader_type=loader)
    whole = numbers(config, 40, rank=rank, ranks=2)
    resumed = numbers(config, 10, consumed=4 * consumed, rank=rank, ranks=2)
    assert resumed == whole[2 * consumed : 2 * consumed + 10]


@pytest.mark.parametrize("loader", ["single", "batch"])
def test_worker_processes_change_nothing(sft_config: MakeConfig, loader: str) -> None:
    expected, found = (
        list(itertools.islice(batches(sft_config(2, 4, dataloader_type=loader, num_workers=workers)), 12))
        for workers in (0, 2)
    )
    for left, right in zip(expected, found, strict=True):
        assert {name: value.tolist() for name, value in left.items()} == {
            name: value.tolist() for name, value in right.items()
        }


def test_batches_are_padded_to_their_longest_row(sft_config: MakeConfig) -> None:
    """Padding stands at the end, without loss; positions count up."""
    import torch

    for batch in itertools.islice(batches(sft_config()), 20):
        lengths = (batch["loss_mask"] > 0).sum(1)  # separator, completion and end are learnt
        assert batch["tokens"].shape[1] == int(lengths.max())
        for tokens, labels, mask, length in zip(
            batch["tokens"], batch["labels"], batch["loss_mask"], lengths, strict=True
        ):
            assert tokens.tolist()[1:length] == labels.tolist()[: length - 1]
            assert labels[length - 1] == BYTES.eod
            assert mask.tolist() == [1] * int(length) + [0] * (len(mask) - int(length))
            assert set(tokens.tolist()[length:]) | set(labels.tolist()[length:]) <= {BYTES.eod}
        assert batch["position_ids"].tolist() == [list(range(batch["tokens"].shape[1]))] * 2
        assert {name: value.dtype for name, value in batch.items()} == {
            "tokens": torch.int64,
            "labels": torch.int64,
            "loss_mask": torch.float32,
            "position_ids": torch.int64,
        }


@pytest.mark.parametrize(
    ("words", "lengths"),
    [
        ({"dataset_kwargs": {"pad_to_max_length": True}}, {64}),
        ({"model": {"pipeline_model_parallel_size": 2}}, {64}),
        ({"model": {"context_parallel_size": 2}}, {4, 8}),
        ({"model": {"tensor_model_parallel_size": 4, "sequence_parallel": True}}, {4, 8}),
        ({"model": {"tensor_model_parallel_size": 4}}, {4, 5, 6, 7, 8}),
        (
            {"model": {"tensor_model_parallel_size": 3, "sequence_parallel": True, "context_parallel_size": 2}},
            {12},
        ),
    ],
    ids=["asked for", "pipeline", "context", "sequence", "tensor alone", "sequence and context"],
)
def test_lengths_follow_the_topology(sft_config: MakeConfig, words: Any, lengths: set[int]) -> None:
    found = {batch["tokens"].shape[1] for batch in itertools.islice(batches(sft_config(1, 2, **words)), 22)}
    assert found <= lengths
    assert len(found) > 1 or len(lengths) == 1


def test_the_batch_loader_gives_the_micro_batches_of_a_global_batch_one_length(sft_config: MakeConfig) -> None:
    config = sft_config(1, 8, dataloader_type="batch")
    sizes = [batch["tokens"].shape[1] for batch in itertools.islice(batches(config), 40)]
    assert all(len(set(sizes[step : step + 8])) == 1 for step in range(0, 40, 8))
    single = [batch["tokens"].shape[1] for batch in itertools.islice(batches(sft_config(1, 8)), 40)]
    assert [max(single[step : step + 8]) for step in range(0, 40, 8)] == sizes[::8]
    assert single != sizes


@pytest.mark.parametrize(("ranks", "micro"), [(1, 1), (1, 4), (2, 2), (4, 1)])
def test_every_held_out_row_counts_once_and_the_rest_of_the_batch_not_at_all(
    sft_config: MakeConfig, ranks: int, micro: int
) -> None:
    """3 rows in global batches of 4, on any number of ranks: none lost, none twice, every rank as many batches."""
    config = sft_config(micro, 4)
    counted: list[int] = []
    for rank in range(ranks):
        for batch in itertools.islice(batches(config, rank=rank, ranks=ranks, valid=True), 2 * 4 // (micro * ranks)):
            counted += batch["tokens"][batch["loss_mask"].sum(1) > 0, 0].tolist()
    assert sorted(counted) == [100, 101, 102]


def test_without_validation_no_held_out_file_is_needed(sft_config: MakeConfig, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "training.jsonl", [row(1)])
    config = sft_config(dataset_root=str(tmp_path), do_validation=False)
    assert build_datasets(config, BYTES, train_samples=1, valid_samples=4)[1] is None
    with pytest.raises(DataError, match=r"no validation\.jsonl .* it holds .*training\.jsonl.*do_validation=false"):
        build_datasets(sft_config(dataset_root=str(tmp_path)), BYTES, train_samples=1, valid_samples=4)


def test_in_batch_packing_lays_a_micro_batch_into_one_row(sft_config: MakeConfig) -> None:
    """The rows of the padded batch, each with its own positions; nothing else changes places."""
    padded = batches(sft_config(2, 4))
    for packed in itertools.islice(batches(sft_config(2, 4, enable_in_batch_packing=True)), 6):
        expected = next(padded)
        bounds = packed["cu_seqlens"].tolist()
        assert bounds[0] == 0
        assert bounds[-1] == packed["tokens"].shape[1] == int(packed["position_ids"].shape[1])
        for number, (begin, end) in enumerate(itertools.pairwise(bounds)):
            for name in ("tokens", "labels", "loss_mask", "position_ids"):
                assert packed[name][0, begin:end].tolist() == expected[name][number, : end - begin].tolist()


def test_offline_packing_reads_rows_of_one_size_in_the_order_of_epochs(sft_config: MakeConfig) -> None:
    """The sequences of an epoch are those without packing; what is held out fills its last batch without loss."""
    specs = {"packed_sequence_size": 24, "pad_seq_to_mult": 1}
    config = sft_config(1, 2, enable_offline_packing=True, offline_packing_specs=specs)
    train, _ = build_datasets(config, BYTES, train_samples=1, valid_samples=2)
    rows = len(train)  # type: ignore[arg-type]
    assert rows < 11
    for epoch in range(2):
        seen = []
        for batch in itertools.islice(batches(config, consumed=0), epoch * rows, (epoch + 1) * rows):
            assert batch["tokens"].shape == (1, 24)
            starts = batch["cu_seqlens"][:-1].tolist()
            seen += [int(batch["tokens"][0, at]) for at in starts if batch["loss_mask"][0, at] > 0]
        assert sorted(seen) == list(range(11))
    held_out = list(itertools.islice(batches(config, valid=True), 4))
    assert [bool(batch["loss_mask"].sum() > 0) for batch in held_out] == [True, False, False, False]


def test_weights_share_places_out_and_need_no_common_epoch(sft_config: MakeConfig, tmp_path: Path) -> None:
    roots = []
    for name, begin in (("a", 0), ("b", 50)):
        write_jsonl(tmp_path / name / "training.jsonl", [row(begin + number) for number in range(5)])
        write_jsonl(tmp_path / name / "validation.jsonl", [row(100 + begin // 2)])
        roots.append(str(tmp_path / name))
    config = sft_config(4, 4, dataset_root=[0.75, roots[0], 0.25, roots[1]])
    for step in numbers(config, 20):
        assert sum(number >= 50 for number in step) == 1
    assert sorted(numbers(sft_config(2, 2, dataset_root=roots), 1, valid=True)[0]) == [100, 125]
    train, valid = build_datasets(config, BYTES, train_samples=1, valid_samples=1)
    assert train.samples_per_epoch is None  # type: ignore[attr-defined]
    assert len(valid) == 2  # type: ignore[arg-type]
    with pytest.raises(DataError, match="drop_last=true: sources with weights have no epoch in common"):
        next(batches(sft_config(4, 4, dataset_root=[0.75, roots[0], 0.25, roots[1]], drop_last=True)))


@pytest.fixture
def broken_folder(tmp_path: Path) -> Path:
    """Of six rows, one is no JSON, one lacks a column and one teaches nothing."""
    path = write_jsonl(
        tmp_path / "training.jsonl", [row(0), {"input": "a"}, row(2), {"input": "b" * 99, "output": "c"}]
    )
    path.write_text(path.read_text() + '{"input": \n' + '{"input": "\\u0005", "output": "x"}\n')
    return tmp_path


@pytest.mark.parametrize("workers", [0, 2])
def test_skipped_rows_are_counted_and_named_and_move_no_other(
    sft_config: MakeConfig, broken_folder: Path, caplog: pytest.LogCaptureFixture, workers: int
) -> None:
    words = {"broken_rows": "skip", "unsupervised_rows": "skip"}
    config = sft_config(2, 6, dataset_root=str(broken_folder), preprocessing=words, num_workers=workers)
    with caplog.at_level(logging.WARNING):
        found = list(itertools.islice(batches(config), 3))
    learnt = [number for batch in found for number in batch["tokens"][batch["loss_mask"].sum(1) > 0, 0].tolist()]
    assert sorted(learnt) == [0, 2, 5]
    said = sorted(record.getMessage() for record in caplog.records)
    assert [message.partition("): ")[0] for message in said] == [f"row skipped ({count} so far" for count in (1, 2, 3)]
    assert {message.partition("training.jsonl ")[2].partition(":")[0] for message in said} == {
        "line 2",
        "line 4",
        "line 5",
    }


@pytest.mark.parametrize("workers", [0, 2])
def test_a_row_that_is_not_to_be_skipped_ends_the_run_in_one_line(
    sft_config: MakeConfig, broken_folder: Path, workers: int
) -> None:
    """Also from a worker process, whose error would else be a page; exit code 1, for the run had begun."""
    config = sft_config(
        1, 1, dataset_root=str(broken_folder), preprocessing={"unsupervised_rows": "skip"}, num_workers=workers
    )
    with pytest.raises(DataError) as error:
        list(itertools.islice(batches(config), 6))
    assert "training.jsonl line " in str(error.value)
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 1


def test_a_dataset_travels_to_a_spawned_worker(sft_config: MakeConfig) -> None:
    train, _ = build_datasets(sft_config(), BYTES, train_samples=1, valid_samples=0)
    rows = train.parts[0].rows  # type: ignore[attr-defined]
    rows[0]
    assert pickle.loads(pickle.dumps(rows))[3] == rows[3]


def test_a_loader_leaves_the_random_numbers_of_the_run_alone(sft_config: MakeConfig) -> None:
    import torch

    before = torch.get_rng_state()
    next(batches(sft_config()))
    assert torch.equal(torch.get_rng_state(), before)
