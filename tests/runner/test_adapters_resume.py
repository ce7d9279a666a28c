"""An adapter run that is interrupted goes on as if it had not been, beside the same base and no other."""

import json
import shutil
from functools import cache

import pytest
from tests.runner import adapter_training as training
from tests.runner.sft_training import train_rows
from tests.runner.test_parallelism_families import TP2

from trainwright.metrics_audit.audit import summarize
from trainwright.runner.testing import RankFailed, run_ranks

pytestmark = pytest.mark.distributed

STEPS = 8
MODEL = training.model_of("grouped queries")
DROPOUT = ("peft.dropout=0.1", "peft.dropout_position=post")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return training.rows(tmp_path_factory.mktemp("rows"))


@pytest.fixture(scope="module")
def base(root, tmp_path_factory):
    """Its latest step is the second."""
    return training.base_of(tmp_path_factory.mktemp("base"), root, *MODEL)


@pytest.fixture(scope="module")
def words(base):
    return (
        *MODEL,
        "peft.scheme=dora",
        training.ALL,
        "peft.dim=4",
        f"train.train_iters={STEPS}",
        "checkpoint.save_interval=2",
        f"checkpoint.pretrained_checkpoint={base}",
    )


@pytest.fixture(scope="module")
def uninterrupted(root, words, tmp_path_factory):
    """The run that nothing disturbs, by further words."""

    @cache
    def run(*more: str):
        return training.run(1, tmp_path_factory.mktemp("whole") / "run", root, *words, *more)

    return run


def interrupted(when: str, root, run_dir, *words: str) -> None:
    run_ranks(training.train_adapters_until, 1, when, 1, run_dir, root, *words)


@pytest.mark.parametrize(
    "more", [(), ("checkpoint.async_save=true", *DROPOUT)], ids=["at once", "in the background, with dropout"]
)
def test_sigterm_saves_and_the_rest_is_the_uninterrupted_run_bit_for_bit(root, words, uninterrupted, tmp_path, more):
    whole, run_dir = uninterrupted(*more), tmp_path / "run"
    interrupted("SIGTERM 3", root, run_dir, *words, *more)
    assert max(training.curve(run_dir)) < STEPS
    training.run(1, run_dir, root, *words, *more)
    assert training.curve(run_dir) == training.curve(whole)
    assert min(training.curve(run_dir)) == 1, "the base's step is none of the run's"
    assert summarize(run_dir, expect_step=STEPS)["completed"]


@pytest.mark.parametrize("moment", ["3 0.02", "saving 0.01"])
def test_kill_9_costs_no_more_than_what_came_after_the_last_checkpoint(root, words, uninterrupted, tmp_path, moment):
    run_dir = tmp_path / "run"
    with pytest.raises(RankFailed):
        interrupted(f"SIGKILL {moment}", root, run_dir, *words)
    training.run(1, run_dir, root, *words)
    assert training.curve(run_dir) == training.curve(uninterrupted())


def test_a_run_goes_on_at_another_topology(root, words, uninterrupted, tmp_path):
    run_dir = tmp_path / "run"
    interrupted("SIGTERM 3", root, run_dir, *words)
    training.run(2, run_dir, root, *words, *TP2)
    assert training.worst(training.curve(run_dir), training.curve(uninterrupted())) < 1e-5


def test_the_base_of_a_run_stays_the_step_that_it_was_also_elsewhere(root, words, base, tmp_path):
    grown, run_dir = tmp_path / "grown", tmp_path / "run"
    shutil.copytree(base, grown)
    marker = grown / "latest_checkpointed_iteration.txt"
    marker.write_text("1\n")
    here = (*words, f"checkpoint.pretrained_checkpoint={grown}")
    interrupted("SIGTERM 2", root, run_dir, *here)
    marker.write_text("2\n")
    grown = grown.rename(tmp_path / "elsewhere")
    training.run(1, run_dir, root, *words, f"checkpoint.pretrained_checkpoint={grown}")
    _, said, _ = run_ranks(looked_into, 1, run_dir, grown)[0]
    assert said["path"] == str(grown / "iter_0000001")


def looked_into(run_dir, base):
    """Names of the weights in a run's latest checkpoint, what it says of its base, and the base's fingerprint."""
    from trainwright.runner.checkpoints.conversion import native_place, open_weights
    from trainwright.runner.checkpoints.fingerprint import fingerprint
    from trainwright.runner.checkpoints.native import NativeWeights

    weights = NativeWeights(native_place(run_dir, None))
    return sorted(weights.held), weights.common["base"], fingerprint(open_weights(base))


def test_a_checkpoint_holds_adapters_alone_and_their_base(uninterrupted, base):
    names, said, fingerprint = run_ranks(looked_into, 1, uninterrupted(), base)[0]
    assert len(names) == 8 * 3 and all(".adapter." in name for name in names)
    assert said == {"path": str(base / "iter_0000002"), "fingerprint": fingerprint}


def test_how_much_is_trained_is_recorded(uninterrupted):
    from trainwright.recipes import from_yaml
    from trainwright.recipes.adapters import trainable_parameters

    run_dir = uninterrupted()
    config = from_yaml((run_dir / "configs" / "ConfigContainer.yaml").read_text())
    said = json.loads((run_dir / "run.json").read_text())["sessions"][0]["recipe"]["adapters"]
    assert said["trainable_parameters"] == trainable_parameters(config.model, config.peft)
    assert said["percent"] == pytest.approx(100 * said["trainable_parameters"] / said["parameters"])
    assert (said["scheme"], said["dim"], said["layers"]) == ("dora", 4, 8)


def test_adapters_of_another_base_rank_or_kind_are_refused(root, words, base, uninterrupted, tmp_path):
    """A table of what does not go together, none of which leaves a trace."""
    run_dir = uninterrupted()
    load = f"checkpoint.load={run_dir}/checkpoints"
    more = "train.train_iters=20"
    whole = f"checkpoint.load={base}"
    cases = {
        "was trained beside other weights": (f"checkpoint.pretrained_checkpoint={base}/iter_0000001", load),
        "peft.dim=4; this run has peft.dim=8": ("peft.dim=8", load),
        "peft.alpha=32.0; this run has peft.alpha=16.0": ("peft.alpha=16", load),
        "peft.scheme=dora; this run has peft.scheme=lora": ("peft.scheme=lora", load),
        "holds adapters alone; name their base": ("checkpoint.pretrained_checkpoint=null", load),
        "holds whole weights and no adapters": (whole,),
        "it lacks decoder.layers.0": (load, "peft.target_modules=[linear_q,linear_proj]"),
        "holds no adapters, and this run trains some": (whole, "checkpoint.pretrained_checkpoint=null"),
        "needs its base": (f"peft.initial_adapter={run_dir}", "checkpoint.pretrained_checkpoint=null"),
        "initial_adapter=/nowhere is no directory": ("peft.initial_adapter=/nowhere",),
    }
    for reason, changes in cases.items():
        with pytest.raises(RankFailed, match="RunRefused") as refused:
            run_ranks(training.train_adapters, 1, 1, tmp_path / "run", root, *words, more, *changes)
        assert reason in str(refused.value)
        assert not (tmp_path / "run").exists()
    with pytest.raises(RankFailed, match=r"RunRefused: .* holds adapters, and this run has none"):
        run_ranks(train_rows, 1, 1, tmp_path / "run", root, *training.STEADY, *MODEL, load, more)


def test_a_base_that_has_changed_is_refused_at_the_next_start(root, words, base, tmp_path):
    changed, run_dir = tmp_path / "changed", tmp_path / "run"
    shutil.copytree(base / "iter_0000002", changed)
    here = (*words, f"checkpoint.pretrained_checkpoint={changed}")
    interrupted("SIGTERM 2", root, run_dir, *here)
    shutil.rmtree(changed)
    shutil.copytree(base / "iter_0000001", changed)
    with pytest.raises(RankFailed, match="was trained beside other weights"):
        run_ranks(training.train_adapters, 1, 1, run_dir, root, *here)


def exported(run_dir, target):
    """The run's adapters in PEFT's format."""
    from trainwright.runner.checkpoints.adapter_conversion import export_adapter

    export_adapter(run_dir, target, lambda done: None)


def test_a_run_begins_with_a_given_adapter_in_either_format(root, words, uninterrupted, tmp_path):
    run_dir = uninterrupted()
    run_ranks(exported, 1, run_dir, tmp_path / "peft")
    further = ("train.train_iters=2", "checkpoint.save_interval=null")
    curves = [
        training.curve(training.run(1, tmp_path / name, root, *words, *further, f"peft.initial_adapter={adapter}"))
        for name, adapter in {"native": run_dir, "theirs": tmp_path / "peft"}.items()
    ]
    assert training.worst(*curves) < 1e-5
    assert curves[0][1][0] < training.curve(run_dir)[1][0] - 0.1, "it begins where the other one ended"
