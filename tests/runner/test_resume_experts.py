"""A run with experts goes on between other numbers of ranks: the optimizer's state comes along.

Megatron Core has one optimizer where all ranks hold all experts and two where each holds some, and checkpoints of the
one do not load into the other by themselves.
"""

from functools import cache

import pytest
from tests.runner.training import corpus, losses, train_on, train_until

from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed
STEPS = 10
EXPERTS = (
    f"train.train_iters={STEPS}",
    "model.num_moe_experts=4",
    "model.moe_ffn_hidden_size=64",
    "model.moe_router_load_balancing_type=none",
)
EP2 = ("model.expert_model_parallel_size=2",)
PP2 = ("model.pipeline_model_parallel_size=2",)
SHARDED = ("ddp.use_distributed_optimizer=true",)
MUON = ("optimizer.optimizer=muon",)
CASES = {
    "EP2 to EP1": (2, EP2, 1, (), ()),
    "EP2 to PP2, distributed optimizer": (2, EP2, 2, PP2, SHARDED),
    "EP1 to EP2, distributed optimizer": (1, (), 2, EP2, SHARDED),
    "EP1 to EP2, Muon": (1, (), 2, EP2, MUON),
    "EP2 to TP2, Muon": (
        2,
        EP2,
        2,
        ("model.tensor_model_parallel_size=2", "model.sequence_parallel=true"),
        MUON,
    ),
}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A corpus, and words that name the weights to start from: ranks that split experts initialize others."""
    folder = tmp_path_factory.mktemp("start")
    data = corpus(folder)
    untouched = ("train.train_iters=1", "optimizer.lr=1e-12", "optimizer.min_lr=1e-12")
    assert run_ranks(train_on, 1, 1, folder / "weights", data, *EXPERTS, *untouched) == [0]
    return data, (*EXPERTS, f"checkpoint.pretrained_checkpoint={folder / 'weights' / 'checkpoints'}")


@pytest.fixture(scope="module")
def uninterrupted(start, tmp_path_factory):
    """The losses of a run on one rank that nothing disturbs, by words; each is run once."""

    @cache
    def run(*words: str) -> dict[int, float]:
        run_dir = tmp_path_factory.mktemp("whole") / "run"
        assert run_ranks(train_on, 1, 1, run_dir, start[0], *start[1], *words) == [0]
        return losses(run_dir)

    return run


@pytest.mark.parametrize("name", CASES)
def test_a_run_with_experts_goes_on_between_other_ranks(start, uninterrupted, tmp_path, name):
    before, first, after, then, both = CASES[name]
    (data, words), run_dir = start, tmp_path / "run"
    stopped = run_ranks(train_until, before, "SIGTERM 4", before, run_dir, data, *words, *both, *first)
    assert stopped == [75] * before
    assert run_ranks(train_on, after, after, run_dir, data, *words, *both, *then) == [0] * after
    whole, resumed = uninterrupted(*(MUON if both is MUON else ())), losses(run_dir)
    assert sorted(resumed) == sorted(whole)
    assert max(abs(resumed[step] - loss) / loss for step, loss in whole.items()) < 1e-5


def test_random_routing_goes_on_as_it_would_have(start, tmp_path):
    """Every rank that holds experts has random numbers of its own; the same ranks continue them, to the last bit."""
    words = (*EXPERTS, *EP2, "model.moe_router_force_load_balancing=true", "checkpoint.save_interval=5")
    assert run_ranks(train_on, 2, 2, tmp_path / "run", start[0], *words) == [0, 0]
    whole = losses(tmp_path / "run")
    assert run_ranks(train_on, 2, 2, tmp_path / "run", start[0], *words, "checkpoint.ckpt_step=5") == [0, 0]
    assert losses(tmp_path / "run") == whole
