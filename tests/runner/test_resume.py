"""Stopping and going on: the run is the one that was never interrupted."""

from functools import cache

import pytest
from tests.runner.training import corpus, losses, records, train, train_on, train_until

from trainwright.metrics_audit.audit import summarize
from trainwright.runner.errors import RunRefused
from trainwright.runner.testing import RankFailed, run_ranks

pytestmark = pytest.mark.distributed
STEPS = 12
LONGER = (f"train.train_iters={STEPS}", "checkpoint.save_interval=3")


TP2 = ("model.tensor_model_parallel_size=2", "model.sequence_parallel=true")
DROPOUT = ("model.hidden_dropout=0.1", "model.attention_dropout=0.1")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A corpus."""
    return corpus(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def uninterrupted(data, tmp_path_factory):
    """The losses of a run that nothing disturbs, by ranks and words; each is run once."""

    @cache
    def run(ranks: int = 1, *words: str) -> dict[int, float]:
        run_dir = tmp_path_factory.mktemp("whole") / "run"
        assert run_ranks(train_on, ranks, ranks, run_dir, data, *LONGER, *words) == [0] * ranks
        return losses(run_dir)

    return run


@pytest.mark.parametrize(
    "words",
    [(), ("checkpoint.async_save=true",), DROPOUT],
    ids=["saved at once", "saved in the background", "with dropout"],
)
def test_sigterm_saves_and_the_rest_is_the_uninterrupted_run_bit_for_bit(data, uninterrupted, tmp_path, words):
    run_dir = tmp_path / "run"
    assert run_ranks(train_until, 1, "SIGTERM 4", 1, run_dir, data, *LONGER, *words) == [75]
    stop = records(run_dir)[-1]
    assert stop["event"] == "session_interrupted" and stop["reason"] == "SIGTERM" and 4 <= stop["step"] < STEPS
    assert not summarize(run_dir)["completed"]
    assert run_ranks(train, 1, run_dir, data, *LONGER, *words) == [0]
    assert losses(run_dir) == uninterrupted(1, *words)
    assert summarize(run_dir, expect_step=STEPS)["start_step"] == stop["step"]


def worst(resumed: dict[int, float], whole: dict[int, float]) -> float:
    """The largest relative difference over all updates."""
    assert sorted(resumed) == sorted(whole) == list(range(1, STEPS + 1))
    return max(abs(resumed[step] - loss) / loss for step, loss in whole.items())


MOMENTS = [
    "2 0.0",
    "3 0.02",
    "6 0.1",
    "11 0.0",
    "saving 0.0",
    "saving 0.005",
    "saving 0.03",
]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("moment", MOMENTS)
def test_kill_9_costs_no_more_than_what_came_after_the_last_checkpoint(data, uninterrupted, tmp_path, moment, ranks):
    run_dir = tmp_path / "run"
    with pytest.raises(RankFailed):
        run_ranks(train_until, ranks, f"SIGKILL {moment}", ranks, run_dir, data, *LONGER)
    assert run_ranks(train_on, ranks, ranks, run_dir, data, *LONGER) == [0] * ranks
    assert losses(run_dir) == uninterrupted(ranks)
    assert summarize(run_dir, expect_step=STEPS)["completed"]


@pytest.mark.parametrize(
    "words",
    [
        TP2,
        ("model.pipeline_model_parallel_size=2",),
        ("model.context_parallel_size=2",),
        (),
        ("ddp.use_distributed_optimizer=true",),
    ],
    ids=["TP2", "PP2", "CP2", "DP2", "DP2 distributed optimizer"],
)
def test_a_run_goes_on_at_another_topology(data, uninterrupted, tmp_path, words):
    run_dir = tmp_path / "run"
    # The optimizer's state reshards in the form that the distributed optimizer writes.
    sharded = ("ddp.use_distributed_optimizer=true",) if words == ("ddp.use_distributed_optimizer=true",) else ()
    assert run_ranks(train_until, 1, "SIGTERM 4", 1, run_dir, data, *LONGER, *sharded) == [75]
    assert run_ranks(train_on, 2, 2, run_dir, data, *LONGER, *words) == [0, 0]
    assert worst(losses(run_dir), uninterrupted()) < 1e-5
    assert summarize(run_dir, expect_step=STEPS)["completed"]


def test_two_ranks_stop_together_and_go_on_as_one(data, uninterrupted, tmp_path):
    run_dir = tmp_path / "run"
    words = (*TP2, "checkpoint.async_save=true")
    assert run_ranks(train_until, 2, "SIGUSR1 5", 2, run_dir, data, *LONGER, *words) == [75, 75]
    assert run_ranks(train, 1, run_dir, data, *LONGER) == [0]
    assert worst(losses(run_dir), uninterrupted(2, *TP2)) < 1e-5


def test_a_finished_run_adds_nothing(data, tmp_path):
    run_dir = tmp_path / "run"
    assert run_ranks(train, 1, run_dir, data, "train.train_iters=2") == [0]
    before = {path: path.read_bytes() for path in run_dir.glob("*.json*")}
    assert run_ranks(train, 1, run_dir, data, "train.train_iters=2") == [0]
    assert {path: path.read_bytes() for path in run_dir.glob("*.json*")} == before


def test_a_run_directory_with_another_configuration_is_refused_with_the_differences(data, tmp_path):
    run_dir = tmp_path / "run"
    assert run_ranks(train, 1, run_dir, data, "train.train_iters=2") == [0]
    before = sorted(run_dir.rglob("*"))
    with pytest.raises(RunRefused, match=r"model\.hidden_size: 64 -> 128"):
        train(run_dir, data, "train.train_iters=2", "model.hidden_size=128", "model.kv_channels=16")
    assert sorted(run_dir.rglob("*")) == before


def test_old_checkpoints_go_and_the_newest_stay(data, tmp_path):
    run_dir = tmp_path / "run"
    words = ("train.train_iters=8", "checkpoint.save_interval=2", "checkpoint.most_recent_k=2")
    assert run_ranks(train, 1, run_dir, data, *words) == [0]
    assert sorted(path.name for path in (run_dir / "checkpoints").iterdir()) == [
        "iter_0000006",
        "iter_0000008",
        "latest_checkpointed_iteration.txt",
    ]
