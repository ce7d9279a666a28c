"""Runs of small models that train adapters, for the tests of them."""

from collections.abc import Callable
from pathlib import Path

from tests.runner.interventions import prepare
from tests.runner.sft_training import SETTINGS, folder_of_rows, train_rows
from tests.runner.test_parallelism_families import MODELS
from tests.runner.training import records

from trainwright.runner.testing import run_ranks

RECIPE = "llama32_1b_peft_config"
# Wide weights and an epsilon that is not small against gradients, or Adam makes rounding errors as large as its steps.
STEADY = (
    "model.init_method_std=0.1",
    "optimizer.adam_eps=0.001",
    "optimizer.lr=0.02",
    "optimizer.min_lr=0",
    "scheduler.lr_decay_style=constant",
    "train.global_batch_size=4",
    "train.micro_batch_size=1",
    "dataset.preprocessing.truncation_side=left",
)
# Without auxiliary losses: a micro-batch's depends on how long its padding is, and that on who shares the global batch.
UNBALANCED = ("model.moe_aux_loss_coeff=0", "model.moe_z_loss_coeff=null")
KINDS: dict[str, tuple[str, ...]] = {
    "grouped queries": ("model.num_layers=2",),
    "latents and shared experts": (*MODELS["latents and shared experts"], *UNBALANCED),
    "experts": (*MODELS["experts"], *UNBALANCED),
    "sinks and windows": (*MODELS["sinks and windows"], *UNBALANCED),
    "further predictions": (*MODELS["further predictions"], *UNBALANCED),
}
Curve = dict[int, tuple[float, float]]
"""Loss and norm of the gradient by update."""
ALL = "peft.target_modules=['*']"
OF_ANOTHER_TRAINING = ("train.", "optimizer.", "dataset.seq_length", "model.moe_router_bias_update_rate")


def model_of(kind: str) -> tuple[str, ...]:
    """Words of a small model, without what its own tests train it by."""
    return tuple(word for word in KINDS[kind] if not word.startswith(OF_ANOTHER_TRAINING))


def train_adapters(world_size: int, run_dir: Path, root: Path, *words: str) -> int:
    """One session on this rank of `world_size`; returns the exit code. To be called by `run_ranks`."""
    from trainwright.recipes import Selection, resolve
    from trainwright.runner.run import run

    selection = Selection(recipe=RECIPE, dataset="local-jsonl")
    overrides = [*SETTINGS, *STEADY, "model.tensor_model_parallel_size=1", f"dataset.dataset_root={root}", *words]
    return run(resolve(selection, overrides, world_size=world_size, device="cpu"), run_dir=run_dir)


def train_adapters_hit(event: str, point: str, world_size: int, run_dir: Path, root: Path, *words: str) -> int:
    """`train_adapters`, and `event` of `interventions` comes to the first rank at `point`."""
    prepare(event, point, 0, run_dir)
    return train_adapters(world_size, run_dir, root, *words)


def run(ranks: int, run_dir: Path, root: Path, *words: str, by: Callable[..., int] = train_adapters) -> Path:
    """Train to the end on so many ranks; returns the run directory."""
    assert run_ranks(by, ranks, ranks, run_dir, root, *words) == [0] * ranks
    return run_dir


def base_of(folder: Path, root: Path, *words: str) -> Path:
    """Weights to train adapters beside: native checkpoints of the model of these words, after one and two updates."""
    run(1, folder / "base", root, *STEADY, *words, "train.train_iters=2", "checkpoint.save_interval=1", by=train_rows)
    return folder / "base" / "checkpoints"


def rows(folder: Path) -> Path:
    """Training rows."""
    return folder_of_rows(folder / "rows")


def curve(run_dir: Path) -> Curve:
    """Of a run that is there."""
    return {
        record["step"]: (record["loss"], record["grad_norm"])
        for record in records(run_dir)
        if record["event"] == "train"
    }


def worst(one: Curve, other: Curve) -> float:
    """The largest relative difference of a loss or a norm."""
    assert sorted(one) == sorted(other)
    return max(abs(a - b) / b for step in one for a, b in zip(one[step], other[step], strict=True))
