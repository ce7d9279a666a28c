"""What a run on rows of text refuses, skips and validates on."""

import json

import pytest
from tests.runner.sft_training import folder_of_rows, train_rows
from tests.runner.training import losses, records

from trainwright.runner.testing import RankFailed, run_ranks

pytestmark = pytest.mark.distributed

UNPACKED = ("dataset.enable_offline_packing=false", "model.num_layers=1", "scheduler.lr_decay_iters=100")


def test_changed_rows_are_refused_at_a_resume_and_told_at_the_start_from_another_run(tmp_path):
    rows = folder_of_rows(tmp_path / "rows")
    run_ranks(train_rows, 1, 1, tmp_path / "run", rows, *UNPACKED, "train.train_iters=2")
    with (rows / "training.jsonl").open("a") as file:
        file.write('{"input": "1 + 1 =", "output": "2"}\n')
    with pytest.raises(RankFailed, match=r"RunRefused: the training rows.*checkpoint\.load="):
        run_ranks(train_rows, 1, 1, tmp_path / "run", rows, *UNPACKED, "train.train_iters=4")
    load = f"checkpoint.load={tmp_path / 'run' / 'checkpoints'}"
    assert run_ranks(train_rows, 1, 1, tmp_path / "other", rows, *UNPACKED, load, "train.train_iters=4") == [0]
    assert sorted(losses(tmp_path / "other")) == [3, 4]
    # The other run has these rows from its beginning, so it goes on with them.
    assert run_ranks(train_rows, 1, 1, tmp_path / "other", rows, *UNPACKED, load, "train.train_iters=5") == [0]


def test_a_validation_has_every_row_once_however_it_is_laid_out(tmp_path):
    """11 rows divide into no batches of these, and are fewer than `validation.eval_iters` of them would hold."""
    rows = folder_of_rows(tmp_path / "rows", validation=11)
    still = ("validation.eval_interval=1", "train.train_iters=1", "optimizer.lr=1e-12", "optimizer.min_lr=1e-12")
    layouts = {
        "4 in twos": (1, ("train.global_batch_size=4", "train.micro_batch_size=2")),
        "one by one": (1, ("train.global_batch_size=1", "train.micro_batch_size=1")),
        "8 over two ranks": (2, ("train.global_batch_size=8", "train.micro_batch_size=2")),
        "packed": (1, ("train.global_batch_size=2", "train.micro_batch_size=1", "dataset.enable_offline_packing=true")),
    }
    found = {}
    for name, (ranks, words) in layouts.items():
        run_ranks(train_rows, ranks, ranks, tmp_path / name, rows, *UNPACKED, *still, *words)
        (validation,) = [record for record in records(tmp_path / name) if record["event"] == "val"]
        found[name] = validation["loss"]
    first = found["4 in twos"]
    assert found == {name: pytest.approx(first, rel=1e-6) for name in layouts}


def test_an_update_without_a_token_to_learn_is_skipped_and_counted(tmp_path):
    """Of four rows one loses its completion to truncation; with a global batch of 1 it is an update of its own."""
    (tmp_path / "rows").mkdir()
    texts = [{"input": "a", "output": "b"}, {"input": "a" * 99, "output": "b"}, *[{"input": "c", "output": "d"}] * 2]
    (tmp_path / "rows" / "training.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
    words = (
        "train.global_batch_size=1", "train.micro_batch_size=1", "train.train_iters=6",
        "dataset.preprocessing.unsupervised_rows=skip", "dataset.do_validation=false",
    )  # fmt: skip
    assert run_ranks(train_rows, 1, 1, tmp_path / "run", tmp_path / "rows", *UNPACKED, *words) == [0]
    log = [record for record in records(tmp_path / "run") if record["event"] == "train"]
    assert log[-1]["total"]["skipped_updates"] == 2  # 8 attempts are two epochs
    assert sum(record["supervised_tokens"] for record in log) == 6 * 3
