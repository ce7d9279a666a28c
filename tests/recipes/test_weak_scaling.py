"""Weak scaling: a benchmark at another number of ranks keeps its samples per GPU, exactly or not at all."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes_runs import refusal, run, says

from trainwright.recipes import ConfigError
from trainwright.recipes.library import find_recipe
from trainwright.recipes.weak_scaling import scaled_batch

EXPERTS = "qwen3_30b_a3b_pretrain_config"


@pytest.mark.parametrize(
    ("batch", "canonical", "ranks", "scaled"),
    [
        (128, 8, 16, 256),
        (128, 8, 4, 64),
        (128, 8, 8, 128),
        (8192, 256, 64, 2048),
        # Half a sequence a GPU: two ranks share one.
        (128, 256, 1024, 512),
        (20, 16, 12, 15),
        # Three are left of four GPUs.
        (1280, 64, 48, 960),
    ],
)
def test_samples_per_gpu_stay(batch: int, canonical: int, ranks: int, scaled: int) -> None:
    """Worked by hand: batch x requested / canonical."""
    assert scaled_batch(batch, canonical=canonical, ranks=ranks) == scaled


@pytest.mark.parametrize(
    ("batch", "canonical", "ranks", "parts"),
    [
        (20, 16, 6, ("would become 7.5", "a multiple of 4 ranks")),
        (128, 256, 3, ("would become 1.5", "a multiple of 2 ranks")),
        (1, 8, 1, ("would become 0.125", "a multiple of 8 ranks")),
    ],
)
def test_a_batch_that_is_no_whole_number_is_refused(
    batch: int, canonical: int, ranks: int, parts: tuple[str, ...]
) -> None:
    """It is never rounded; the line says which numbers of ranks keep it whole."""
    with pytest.raises(ConfigError) as caught:
        scaled_batch(batch, canonical=canonical, ranks=ranks)
    says(str(caught.value), f"world size {ranks}", "-gb N", *parts)


@given(st.integers(1, 10_000), st.integers(1, 2048), st.integers(1, 2048))
def test_scaling_is_exact_or_refused(batch: int, canonical: int, ranks: int) -> None:
    """A scaled batch holds the ratio to the last sequence, and the way back gives the recipe's own."""
    try:
        scaled = scaled_batch(batch, canonical=canonical, ranks=ranks)
    except ConfigError:
        assert batch * ranks % canonical
    else:
        assert scaled * canonical == batch * ranks
        assert scaled_batch(scaled, canonical=ranks, ranks=canonical) == batch


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Qwen3 30B-A3B on 16 GPUs as a benchmark: EP 16, 1024 sequences."""
    recipe = find_recipe(EXPERTS)
    assert recipe is not None
    monkeypatch.setattr("trainwright.recipes.selection.find_recipe", lambda name: replace(recipe, benchmark=True))


@pytest.mark.usefixtures("benchmark")
@pytest.mark.parametrize(("ranks", "batch"), [(16, 1024), (32, 2048), (None, 1024)])
def test_a_benchmark_scales(ranks: int | None, batch: int) -> None:
    """Up; not at its own size; and a dry run that names none validates its own."""
    resolved = run(recipe=EXPERTS, world_size=ranks, device="cuda")
    assert resolved.config.train.global_batch_size == batch
    assert bool(resolved.remarks) == (batch != 1024) == (not resolved.canonical)


@pytest.mark.usefixtures("benchmark")
def test_the_log_is_told() -> None:
    resolved = run(recipe=EXPERTS, world_size=32, device="cuda")
    assert resolved.sources["train.global_batch_size"] == "weak scaling"
    says(resolved.remarks[0], "32 ranks instead of 16", "64 sequences per GPU", "1024 -> 2048")
    assert resolved.canonical_differences == (
        "world size: 16 -> 32",
        "train.global_batch_size: 1024 -> 2048 (weak scaling)",
    )


@pytest.mark.usefixtures("benchmark")
@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ((), {"train.global_batch_size": "1024"}),
        (("train.global_batch_size=1024",), {}),
        (("train={global_batch_size:1024}",), {}),
    ],
    ids=["flag", "word", "mapping"],
)
def test_a_typed_batch_is_kept(words: tuple[str, ...], flags: dict[str, str]) -> None:
    """Also where it is the recipe's own, and whichever way it was typed."""
    resolved = run(*words, recipe=EXPERTS, world_size=32, device="cuda", flags=flags)
    assert resolved.config.train.global_batch_size == 1024
    says(resolved.remarks[0], "off", "train.global_batch_size=1024 was typed")


@pytest.mark.usefixtures("benchmark")
@pytest.mark.parametrize(
    ("words", "ranks", "parts"),
    [
        # Whole copies of the model come first, then groups of experts, then the batch.
        (("model.pipeline_model_parallel_size=4",), 18, ("world size 18 is not a multiple of 4",)),
        ((), 8, ("the 8 ranks of a pipeline stage", "expert_model_parallel_size=16")),
        ((), 24, ("the 24 ranks of a pipeline stage", "expert_model_parallel_size=16")),
        (("model.expert_model_parallel_size=1", "train.micro_batch_size=128"), 12, ("1024", "=768")),
    ],
)
def test_ranks_that_do_not_fit_are_refused(words: tuple[str, ...], ranks: int, parts: tuple[str, ...]) -> None:
    says(refusal(*words, recipe=EXPERTS, world_size=ranks, device="cuda"), *parts)


def test_a_library_recipe_does_not_scale() -> None:
    """Its batch is one of training, whatever number of GPUs its name says."""
    resolved = run(recipe=EXPERTS, world_size=32, device="cuda")
    assert (resolved.config.train.global_batch_size, resolved.remarks) == (1024, ())
