"""Fine-tuning gives one loss curve: padded, packed in the batch or packed beforehand, and at every topology."""

import pytest
from tests.runner.sft_training import folder_of_rows, supervised_tokens, train_rows
from tests.runner.test_telemetry_tensorboard import points
from tests.runner.training import losses, records

from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed

GATE = 1e-5
PADDED = ("dataset.enable_offline_packing=false", "dataset.dataloader_type=single")
IN_BATCH = (*PADDED, "dataset.enable_in_batch_packing=true")
# Rows do not depend on the topology when the alignment does not: 4 serves all of these.
OFFLINE = (
    "dataset.enable_offline_packing=true",
    "train.micro_batch_size=1",
    "dataset.offline_packing_specs.pad_seq_to_mult=4",
    "dataset.offline_packing_specs.packed_sequence_size=96",
)
TP2 = ("model.tensor_model_parallel_size=2", "model.sequence_parallel=true")
PP2 = ("model.pipeline_model_parallel_size=2",)
CP2 = ("model.context_parallel_size=2",)
VP2 = (*PP2, "model.virtual_pipeline_model_parallel_size=2")
CASES = {
    "padded, DP2": (2, PADDED),
    "padded to the whole length, PP2": (2, (*PADDED, *PP2)),
    "padded to the longest of the global batch, CP2": (2, (*PADDED[:1], "dataset.dataloader_type=batch", *CP2)),
    "in batch, one rank": (1, IN_BATCH),
    "in batch, TP2+SP": (2, (*IN_BATCH, *TP2)),
    "in batch, CP2": (2, (*IN_BATCH, *CP2)),
    "in batch, TP2 x CP2": (4, (*IN_BATCH, *TP2, *CP2)),
    "in batch, PP2": (2, (*IN_BATCH, *PP2)),
    "in batch, PP2 VP2": (2, (*IN_BATCH, *VP2)),
    "beforehand, DP2": (2, OFFLINE),
    "beforehand, TP2+SP": (2, (*OFFLINE, *TP2)),
    "beforehand, CP2": (2, (*OFFLINE, *CP2)),
    "beforehand, PP2": (2, (*OFFLINE, *PP2)),
}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Rows, the weights that every run starts from, and the runs of a single rank."""
    folder = tmp_path_factory.mktemp("sft")
    rows = folder_of_rows(folder / "rows")
    still = ("train.train_iters=1", "optimizer.lr=1e-12", "optimizer.min_lr=1e-12")
    run_ranks(train_rows, 1, 1, folder / "weights", rows, *PADDED, *still)
    weights = f"checkpoint.pretrained_checkpoint={folder / 'weights' / 'checkpoints'}"
    for name, words in (("padded", PADDED), ("beforehand", OFFLINE)):
        run_ranks(train_rows, 1, 1, folder / name, rows, weights, *words)
    return folder, rows, weights


def test_the_single_rank_learns_every_completion_once_an_epoch(start):
    """48 rows are 6 updates of 8; what they supervise is known from the file."""
    folder, rows, _ = start
    log = [record for record in records(folder / "padded") if record["event"] == "train"]
    assert log[-1]["loss"] < 0.8 * log[0]["loss"]
    assert sum(record["supervised_tokens"] for record in log[:6]) == supervised_tokens(rows)


@pytest.mark.parametrize("name", CASES)
def test_a_topology_reproduces_the_single_rank(start, name):
    folder, rows, weights = start
    ranks, words = CASES[name]
    assert run_ranks(train_rows, ranks, ranks, folder / name, rows, weights, *words) == [0] * ranks
    reference, found = (losses(folder / run) for run in ("beforehand" if "beforehand" in name else "padded", name))
    assert sorted(reference) == sorted(found) == list(range(1, 9))
    difference = max(abs(found[step] - loss) / loss for step, loss in reference.items())
    print(f"{name}: largest relative difference {difference:.1e}")
    assert difference < GATE
    if "beforehand" in name:  # the same rows everywhere, so the same work
        wanted = operations(folder / "beforehand", 1)
        assert operations(folder / name, ranks) == {step: pytest.approx(one, rel=1e-5) for step, one in wanted.items()}


def operations(run_dir, ranks):
    """Of each update over all devices, in 10^12, from what TensorBoard shows of its speed."""
    shown = points(run_dir / "tb_logs")
    speed, seconds = shown["throughput/tflops/device"], shown["iteration-time"]
    return {step: speed[step] * seconds[step] * ranks for step in seconds}


def test_a_packed_row_takes_fewer_operations_than_one_sequence_as_long(start):
    from trainwright.recipes import from_yaml
    from trainwright.recipes.flops import floating_point_operations

    folder = start[0]
    config = from_yaml((folder / "beforehand" / "configs" / "ConfigContainer.yaml").read_text())
    row, rows = 96, config.train.global_batch_size
    dense, whole = (floating_point_operations(config).of(rows * row, pairs) / 1e12 for pairs in (0, rows * row**2))
    assert all(dense < one < (dense + whole) / 2 for one in operations(folder / "beforehand", 1).values())


def test_a_run_on_packed_rows_goes_on_at_another_topology(start):
    """The multiple to which sequences are padded was set to one that both topologies can use."""
    folder, rows, weights = start
    words = (weights, *OFFLINE, "scheduler.lr_decay_iters=8")
    run_ranks(train_rows, 1, 1, folder / "moved", rows, *words, "train.train_iters=4")
    assert run_ranks(train_rows, 2, 2, folder / "moved", rows, *words, *CP2) == [0, 0]
    reference, found = losses(folder / "beforehand"), losses(folder / "moved")
    assert found == {step: pytest.approx(loss, rel=GATE) for step, loss in reference.items()}
