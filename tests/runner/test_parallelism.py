"""Every topology gives the loss curve of a single rank, at each update, within 1e-5 relative in fp32."""

import pytest
from tests.runner import faults
from tests.runner.training import corpus, losses, train, train_on

from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed

GATE = 1e-5
TP2 = ("model.tensor_model_parallel_size=2", "model.sequence_parallel=true")
PP2 = ("model.pipeline_model_parallel_size=2",)
CP2 = ("model.context_parallel_size=2",)
SHARDED = ("ddp.use_distributed_optimizer=true",)
TOPOLOGIES = {
    "TP2+SP": (2, TP2),
    "PP2": (2, PP2),
    "PP2 VP2": (2, (*PP2, "model.virtual_pipeline_model_parallel_size=2")),
    "CP2": (2, CP2),
    "DP2": (2, ()),
    "DP2 distributed optimizer": (2, SHARDED),
    "DP2 distributed optimizer, overlapped": (
        2,
        (*SHARDED, "ddp.overlap_grad_reduce=true", "ddp.overlap_param_gather=true"),
    ),
    "PP2 VP2 x DP2 distributed optimizer, stages that gather at once": (
        4,
        (
            *(*PP2, "model.virtual_pipeline_model_parallel_size=2"),
            *(*SHARDED, "ddp.overlap_grad_reduce=true", "ddp.overlap_param_gather=true", "ddp.align_param_gather=true"),
        ),
    ),
    "TP2 x PP2": (4, (*TP2, *PP2)),
    "TP2 x CP2": (4, (*TP2, *CP2)),
}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Data, weights that every topology starts from, and the losses of the single rank."""
    folder = tmp_path_factory.mktemp("parallelism")
    data = corpus(folder)
    run_ranks(train, 1, folder / "weights", data, "train.train_iters=1", "optimizer.lr=1e-12", "optimizer.min_lr=1e-12")
    weights = f"checkpoint.pretrained_checkpoint={folder / 'weights' / 'checkpoints'}"
    run_ranks(train, 1, folder / "single", data, weights)
    return folder, data, weights, losses(folder / "single")


def worst(reference: dict[int, float], other: dict[int, float]) -> float:
    """The largest relative difference over all updates."""
    assert sorted(reference) == sorted(other) == list(range(1, 11))
    return max(abs(other[step] - loss) / loss for step, loss in reference.items())


def test_the_single_rank_really_learns(start):
    reference = start[3]
    assert reference[10] < 0.8 * reference[1]


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_topology_reproduces_the_single_rank(start, name, record_property):
    folder, data, weights, reference = start
    ranks, words = TOPOLOGIES[name]
    run_dir = folder / name
    assert run_ranks(train_on, ranks, ranks, run_dir, data, weights, *words) == [0] * ranks
    difference = worst(reference, losses(run_dir))
    record_property("largest relative difference", difference)
    print(f"{name}: largest relative difference {difference:.1e}")
    assert difference < GATE


@pytest.mark.parametrize(
    ("fault", "words"),
    [(faults.train_without_sequence_parallel_marks, TP2), (faults.train_without_gradient_all_reduce, ())],
    ids=["norms without their sequence-parallel mark", "a skipped all-reduce of gradients"],
)
def test_a_broken_build_does_not_pass_the_gate(start, fault, words):
    folder, data, weights, reference = start
    run_dir = folder / fault.__name__
    assert run_ranks(fault, 2, run_dir, data, weights, *words) == [0, 0]
    difference = worst(reference, losses(run_dir))
    print(f"{fault.__name__}: largest relative difference {difference:.1e}")
    assert difference > 2 * GATE
