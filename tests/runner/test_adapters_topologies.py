"""Adapters train alike at every topology: losses and gradients are those of a single rank, from the first update on."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import pytest
from tests.runner import adapter_training as training
from tests.runner.adapter_faults import train_without_marks
from tests.runner.test_parallelism_families import ALL_AGAIN, EP2, ETP1, PP2, SHARDED, TP2

pytestmark = pytest.mark.distributed

GATE = 1e-5
# The same one on each stage would hide that a stage has none.
FIRST_BLOCK = ("linear_q", "linear_v", "linear_proj", "linear_fc1_up", "linear_fc2")
PARTS = f"peft.target_modules=[{','.join(f"'*.layers.0.*.{name}'" for name in FIRST_BLOCK)}]"
DORA, LORA = ("peft.scheme=dora", training.ALL), ("peft.scheme=lora", training.ALL)
GQA, LATENTS, EXPERTS = "grouped queries", "latents and shared experts", "experts"


OVERLAPPED = (*SHARDED, "ddp.overlap_grad_reduce=true", "ddp.overlap_param_gather=true")


class Case(NamedTuple):
    """A model and its adapters at a topology."""

    kind: str
    adapters: tuple[str, ...]
    ranks: int
    topology: tuple[str, ...]


CASES = {
    "TP2 x PP2": Case(GQA, DORA, 4, (*TP2, *PP2)),
    "parts of fused layers, none on the second stage, all recomputed": Case(
        GQA, ("peft.scheme=lora", PARTS), 4, (*TP2, *PP2, *ALL_AGAIN)
    ),
    "DP2, gradients and parameters exchanged on the way": Case(GQA, DORA, 2, OVERLAPPED),
    "experts split, EP2 x TP2": Case(EXPERTS, DORA, 4, (*EP2, *TP2)),
    "latents TP2, experts whole": Case(LATENTS, LORA, 2, (*TP2, *EP2, *ETP1)),
}
Setting = Callable[[str, tuple[str, ...]], tuple[Any, tuple[str, ...], training.Curve]]


def settings(make_folder: Callable[[str], Any]) -> Setting:
    """By model and adapters: rows, words of a run that goes on from adapters that are not zero, and its curve on one
    rank. Adapters of grouped queries are saved alone, beside a base; of other models with all else."""
    root = training.rows(make_folder("rows"))

    @cache
    def base(kind: str) -> tuple[str, ...]:
        if kind != GQA:
            return ()
        path = training.base_of(make_folder("base"), root, *training.model_of(kind))
        return (f"checkpoint.pretrained_checkpoint={path}",)

    @cache
    def begun(kind: str, adapters: tuple[str, ...]) -> tuple[Any, tuple[str, ...], training.Curve]:
        here = make_folder("begun")
        words = (*training.model_of(kind), *adapters, "peft.dim=4", *base(kind), "train.train_iters=2")
        first = training.run(1, here / "first", root, *words)
        # Small steps: large ones make of a rounding error another gradient.
        words = (*words, f"checkpoint.load={first}/checkpoints", "checkpoint.load_optim=false")
        words = (*words, "train.train_iters=4", "optimizer.lr=0.002")
        return root, words, training.curve(training.run(1, here / "one", root, *words))

    return begun


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    return settings(tmp_path_factory.mktemp)


def difference(setting: Setting, case: Case, run_dir: Any) -> float:
    """The largest relative one from a single rank, of any loss or norm of a gradient."""
    root, words, one = setting(case.kind, case.adapters)
    return training.worst(training.curve(training.run(case.ranks, run_dir, root, *words, *case.topology)), one)


@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients_are_those_of_one_rank(setting, tmp_path, name):
    assert difference(setting, CASES[name], tmp_path / "run") < GATE


def test_the_gate_catches_gradients_that_are_of_a_part_of_the_sequence(setting, tmp_path):
    root, words, one = setting(GQA, DORA)
    broken = training.run(2, tmp_path / "run", root, *words, *TP2, by=train_without_marks)
    assert training.worst(training.curve(broken), one) > 10 * GATE
