"""An adapter run that is interrupted goes on as if it had not been, beside the same base and no other."""

import json
import shutil
from functools import cache
from pathlib import Path

import pytest
from tests.runner import adapter_training as training
from tests.runner.sft_training import train_rows
from tests.runner.test_parallelism_families import TP2

from trainwright.metrics_audit.audit import summarize
from trainwright.recipes.config.peft import PeftConfig
from trainwright.runner.checkpoints.base import require_base_where_needed
from trainwright.runner.checkpoints.loading import require_same_kind
from trainwright.runner.errors import RunRefused
from trainwright.runner.testing import RankFailed, run_ranks

pytestmark = pytest.mark.distributed

STEPS = 6
MODEL = training.model_of("grouped queries")


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


def interrupted(root, run_dir, *words: str, point: str = "update 4", event: str = "SIGTERM") -> None:
    assert run_ranks(training.train_adapters_hit, 1, event, point, 1, run_dir, root, *words) == [75]


def test_sigterm_saves_and_the_rest_is_the_uninterrupted_run_bit_for_bit(root, words, uninterrupted, tmp_path):
    """With dropout, and saved in the background."""
    more = ("checkpoint.async_save=true", "peft.dropout=0.1", "peft.dropout_position=post")
    whole, run_dir = uninterrupted(*more), tmp_path / "run"
    interrupted(root, run_dir, *words, *more)
    assert max(training.curve(run_dir)) < STEPS
    training.run(1, run_dir, root, *words, *more)
    assert training.curve(run_dir) == training.curve(whole)
    assert min(training.curve(run_dir)) == 1, "the base's step is none of the run's"
    assert summarize(run_dir, expect_step=STEPS)["completed"]


def test_kill_9_inside_a_save_costs_no_more_than_what_came_after_the_last_one(root, words, uninterrupted, tmp_path):
    run_dir = tmp_path / "run"
    with pytest.raises(RankFailed):
        interrupted(root, run_dir, *words, event="SIGKILL", point="naming a checkpoint 2")
    training.run(1, run_dir, root, *words)
    assert training.curve(run_dir) == training.curve(uninterrupted())


def test_a_run_goes_on_at_another_topology(root, words, uninterrupted, tmp_path):
    run_dir = tmp_path / "run"
    interrupted(root, run_dir, *words)
    training.run(2, run_dir, root, *words, *TP2)
    assert training.worst(training.curve(run_dir), training.curve(uninterrupted())) < 1e-5


def test_the_base_of_a_run_stays_the_step_that_it_was_also_elsewhere(root, words, base, tmp_path):
    grown, run_dir = tmp_path / "grown", tmp_path / "run"
    shutil.copytree(base, grown)
    marker = grown / "latest_checkpointed_iteration.txt"
    marker.write_text("1\n")
    here = (*words, f"checkpoint.pretrained_checkpoint={grown}")
    interrupted(root, run_dir, *here)
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


def test_adapters_of_another_base_or_of_other_layers_are_refused(root, words, base, uninterrupted, tmp_path):
    """Each at another place of the start, and none leaves a trace."""
    load = f"checkpoint.load={uninterrupted()}/checkpoints"
    cases = {
        "was trained beside other weights": (f"checkpoint.pretrained_checkpoint={base}/iter_0000001", load),
        "holds adapters alone; name their base": ("checkpoint.pretrained_checkpoint=null", load),
        "it lacks decoder.layers.0": (load, "peft.target_modules=[linear_q,linear_proj]"),
        "initial_adapter=/nowhere is no directory": ("peft.initial_adapter=/nowhere",),
    }
    for reason, changes in cases.items():
        with pytest.raises(RankFailed, match="RunRefused") as refused:
            run_ranks(training.train_adapters, 1, 1, tmp_path / "run", root, *words, "train.train_iters=20", *changes)
        assert reason in str(refused.value)
        assert not (tmp_path / "run").exists()


def test_weights_that_are_trained_whole_take_no_checkpoint_of_adapters(root, uninterrupted, tmp_path):
    load = f"checkpoint.load={uninterrupted()}/checkpoints"
    with pytest.raises(RankFailed, match=r"RunRefused: .* holds adapters, and this run has none"):
        run_ranks(train_rows, 1, 1, tmp_path / "run", root, *training.STEADY, *MODEL, load, "train.train_iters=20")


@pytest.mark.parametrize(
    ("written", "wanted", "reason"),
    [
        ({}, {"dim": 8}, "peft.dim=32; this run has peft.dim=8"),
        ({}, {"alpha": 16}, "peft.alpha=32; this run has peft.alpha=16"),
        ({"scheme": "dora"}, {}, "peft.scheme=dora; this run has peft.scheme=lora"),
        (None, {}, "holds no adapters, and this run trains some"),
    ],
)
def test_adapters_of_another_rank_scale_or_scheme_are_refused(written, wanted, reason):
    sections = [PeftConfig(**one) if one is not None else None for one in (written, wanted)]
    with pytest.raises(RunRefused, match=reason):
        require_same_kind(Path("checkpoint"), *sections)


def test_a_checkpoint_of_whole_weights_is_refused_beside_a_base():
    with pytest.raises(RunRefused, match="holds whole weights and no adapters of a base"):
        require_base_where_needed(Path("checkpoint"), None, "base")


def test_a_base_that_has_changed_is_refused_at_the_next_start(root, words, base, tmp_path):
    changed, run_dir = tmp_path / "changed", tmp_path / "run"
    shutil.copytree(base / "iter_0000002", changed)
    here = (*words, f"checkpoint.pretrained_checkpoint={changed}")
    interrupted(root, run_dir, *here)
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
