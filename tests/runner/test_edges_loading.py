"""What is continued of a checkpoint, what is not, and what is refused by name."""

import math
import shutil

import pytest
import torch
from tests.runner.interventions import train_hit
from tests.runner.training import TINY, corpus, losses, records, train, train_on

from trainwright.metrics_audit.audit import summarize
from trainwright.recipes import Selection, resolve
from trainwright.runner.checkpoints.folder import MARKER
from trainwright.runner.checkpoints.loading import require_parts
from trainwright.runner.errors import RunRefused
from trainwright.runner.testing import RankFailed, run_ranks

pytestmark = pytest.mark.distributed
WARMUP, STEPS, LEAST = 2, 10, 0.0003
SCHEDULE = (f"train.train_iters={STEPS}", f"scheduler.lr_warmup_iters={WARMUP}", f"optimizer.min_lr={LEAST}")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A corpus."""
    return corpus(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def origin(data, tmp_path_factory):
    """A run that was stopped after its 8th update, with checkpoints of the steps 4 and 8."""
    run_dir = tmp_path_factory.mktemp("origin") / "run"
    words = (*SCHEDULE, "checkpoint.save_interval=4")
    assert run_ranks(train_hit, 1, "SIGTERM", "update 7", 0, 1, run_dir, data, *words) == [75]
    return run_dir


@pytest.fixture(scope="module")
def load(origin):
    """Words that continue the origin's step 4 in a new run."""
    return f"checkpoint.load={origin / 'checkpoints'}", "checkpoint.ckpt_step=4"


def closed_form(update: int, peak: float) -> float:
    """The rate of that update, counted from 1: linear from zero, then half a cosine down."""
    done = update - 1
    if done <= WARMUP:
        return peak * done / WARMUP
    return LEAST + (peak - LEAST) * (1 + math.cos(math.pi * (done - WARMUP) / (STEPS - WARMUP))) / 2


@pytest.mark.parametrize("peak", [0.003, 0.001])
def test_a_new_run_goes_on_with_the_state_of_the_old_and_settings_of_its_own(data, origin, load, tmp_path, peak):
    run_dir = tmp_path / "run"
    assert run_ranks(train, 1, run_dir, data, *SCHEDULE, *load, f"optimizer.lr={peak}") == [0]
    rates = {r["step"]: r["learning_rates"]["default"] for r in records(run_dir) if r["event"] == "train"}
    assert rates == pytest.approx({step: closed_form(step, peak) for step in range(5, 11)}, rel=1e-12)
    old, new = losses(origin), losses(run_dir)
    assert new[5] == old[5]
    assert all(new[step] == old[step] for step in range(6, 9)) == (peak == 0.003)


def test_the_rate_follows_the_updates_whatever_is_loaded(data, load, tmp_path):
    run_dir = tmp_path / "run"
    words = ("train.global_batch_size=4", "checkpoint.load_optim=false")
    assert run_ranks(train, 1, run_dir, data, *SCHEDULE, *load, *words) == [0]
    rates = {r["step"]: r["learning_rates"]["default"] for r in records(run_dir) if r["event"] == "train"}
    assert rates == pytest.approx({step: closed_form(step, 0.003) for step in range(5, 11)}, rel=1e-12)


@pytest.mark.parametrize("how", ["checkpoint.load", "checkpoint.pretrained_checkpoint"])
def test_a_run_that_started_elsewhere_is_interrupted_and_goes_on_from_its_own_checkpoint(data, origin, tmp_path, how):
    words = (f"{how}={origin / 'checkpoints'}", "checkpoint.ckpt_step=4", "checkpoint.load_optim=false")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert run_ranks(train, 1, whole, data, *SCHEDULE, *words) == [0]
    assert run_ranks(train_hit, 1, "SIGTERM", "update 1", 0, 1, parts, data, *SCHEDULE, *words) == [75]
    assert run_ranks(train, 1, parts, data, *SCHEDULE, *words) == [0]
    assert losses(parts) == losses(whole)
    assert summarize(parts, expect_step=STEPS)["start_step"] == (6 if how == "checkpoint.load" else 2)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            ("model.num_layers=2",),
            r"belongs to another model: this one has no place for decoder\.layers\.4\..*12 weigh",
        ),
        (("model.num_layers=6",), r"belongs to another model: it lacks decoder\.layers\.10\..*12 weights"),
        (("model.ffn_hidden_size=256",), r"cannot be loaded: .*shape mismatch.*linear_fc1"),
    ],
    ids=["shallower", "deeper", "wider"],
)
def test_another_model_is_refused_with_a_weight_that_tells(data, load, tmp_path, words, reason):
    with pytest.raises(RankFailed, match=f"RunRefused: .*iter_0000004 {reason}"):
        run_ranks(train, 1, tmp_path / "run", data, *SCHEDULE, *load, *words)
    assert not (tmp_path / "run").exists()


def configuration(*words: str):
    selection = Selection(recipe="llama32_1b_pretrain_config", mode="pretrain", dataset="megatron-indexed")
    return resolve(selection, [*TINY, "dataset.data_path=x", *words], world_size=1, device="cpu").config


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("checkpoint.save_optim=false", "", r"no state of an optimizer; checkpoint\.load_optim=false"),
        ("checkpoint.save_rng=false", "", r"no states of random numbers; checkpoint\.load_rng=false"),
        ("", "optimizer.optimizer=sgd", r"the state of optimizer\.optimizer=adam, of no use with sgd; .*load_optim"),
        ("", "ddp.use_distributed_optimizer=true", r"use_distributed_optimizer=False, of no use with True; .*load_opt"),
    ],
)
def test_a_part_that_a_checkpoint_lacks_is_refused_with_the_word_that_does_without(tmp_path, old, new, reason):
    written, wanted = (configuration(*([word] if word else [])) for word in (old, new))
    with pytest.raises(RunRefused, match=reason):
        require_parts(tmp_path, written, wanted, optimizer=True, rng=True)
    require_parts(tmp_path, written, wanted, optimizer=False, rng=False)


def truncate(checkpoint):
    for part in checkpoint.glob("*.distcp"):
        part.write_bytes(part.read_bytes()[:1000])


DAMAGE = {
    "a file cut short": (truncate, r"iter_0000008 cannot be loaded: .*; checkpoint\.ckpt_step takes .* \[4\]"),
    "no metadata": (
        lambda place: (place / ".metadata").unlink(),
        r"cannot be loaded: it has no file \.metadata; .*\[4\]",
    ),
    "a marker that names nothing": (shutil.rmtree, r"names the checkpoint '8', and there are only \[4\]"),
    "a marker that is no text": (lambda place: (place.parent / MARKER).write_bytes(b"\xff"), r"only \[4, 8\]: correct"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_refused_and_nothing_is_touched(data, origin, tmp_path, damage):
    run_dir = tmp_path / "run"
    shutil.copytree(origin, run_dir)
    harm, reason = DAMAGE[damage]
    harm(run_dir / "checkpoints" / "iter_0000008")
    before = {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()}
    with pytest.raises(RankFailed, match=f"RunRefused: .*{reason}"):
        run_ranks(train, 1, run_dir, data, *SCHEDULE)
    assert {path: path.read_bytes() for path in run_dir.rglob("*") if path.is_file()} == before


def test_a_checkpoint_that_leaves_nothing_to_train_is_refused_before_ranks_meet(data, origin, tmp_path):
    with pytest.raises(RunRefused, match=r"stands at update 8 of train\.train_iters=8: nothing is left to train"):
        train(tmp_path / "run", data, "train.train_iters=8", f"checkpoint.load={origin / 'checkpoints'}")
    assert not (tmp_path / "run").exists()


def test_a_folder_for_checkpoints_that_cannot_be_written_is_refused_before_ranks_meet(data, tmp_path):
    with pytest.raises(
        RunRefused, match=r"the checkpoint folder /proc/nowhere cannot be written: /proc is not writable"
    ):
        train(tmp_path / "run", data, "checkpoint.save=/proc/nowhere")
    assert not (tmp_path / "run").exists()


def test_sgd_goes_on_with_its_momentum(data, tmp_path):
    words = ("optimizer.optimizer=sgd", "train.train_iters=4", "optimizer.lr=0.1")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert run_ranks(train, 1, whole, data, *words) == [0]
    assert run_ranks(train_hit, 1, "SIGTERM", "update 1", 0, 1, parts, data, *words) == [75]
    assert run_ranks(train, 1, parts, data, *words) == [0]
    assert losses(parts) == losses(whole)


def test_a_checkpoint_holds_the_weights_of_its_step_also_where_gathering_waits_for_the_next_forward(data, tmp_path):
    import torch.distributed.checkpoint as torch_checkpoint

    sharded = [
        f"ddp.{name}=true" for name in ("use_distributed_optimizer", "overlap_grad_reduce", "overlap_param_gather")
    ]
    assert run_ranks(train_on, 2, 2, tmp_path / "run", data, "train.train_iters=2", *sharded) == [0, 0]
    place = tmp_path / "run" / "checkpoints" / "iter_0000002"
    entries = torch_checkpoint.FileSystemReader(place).read_metadata().state_dict_metadata
    of_optimizer = "optimizer.state.param."
    weights = [name.removeprefix(of_optimizer) for name in entries if name.startswith(of_optimizer)]
    values = {key: torch.empty(entries[key].size) for name in weights for key in (name, of_optimizer + name)}
    torch_checkpoint.load(values, checkpoint_id=place, no_dist=True)
    assert len(weights) == 4 * 6 + 2
    assert [name for name in weights if not torch.equal(values[name], values[of_optimizer + name])] == []
