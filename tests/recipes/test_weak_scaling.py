"""Weak scaling: a benchmark at another number of ranks keeps its samples per GPU, exactly or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes_runs import refusal, run, says

from trainwright.recipes import ConfigError
from trainwright.recipes.weak_scaling import scaled_batch


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


DENSE = "llama3_8b_pretrain_8gpu_h100_bf16_config"
"""128 sequences, CP 2."""
EXPERTS = "qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config"
"""1024 sequences, EP 16."""
LARGE = "llama31_405b_pretrain_512gpu_h100_bf16_config"
"""768 sequences, one and a half for each GPU; TP 8, PP 8, CP 2."""
PEFT = "llama3_70b_peft_8gpu_h100_bf16_config"
"""32 sequences, PP 4."""


@pytest.mark.parametrize(
    ("recipe", "ranks", "batch"),
    [
        (DENSE, 16, 256),
        (DENSE, 6, 96),
        (DENSE, 2, 32),
        (DENSE, 8, 128),
        (DENSE, None, 128),
        (EXPERTS, 32, 2048),
        (EXPERTS, 48, 3072),
        (LARGE, 128, 192),
        (LARGE, 640, 960),
        (PEFT, 4, 16),
        (PEFT, 12, 48),
    ],
)
def test_a_benchmark_scales(recipe: str, ranks: int | None, batch: int) -> None:
    """Up and down, worked by hand; and a dry run that names no size validates the recipe's own."""
    resolved = run(recipe=recipe, world_size=ranks, device="cuda")
    assert resolved.config.train.global_batch_size == batch
    scaled = resolved.sources["train.global_batch_size"] == "weak scaling"
    assert scaled == bool(resolved.remarks) == (not resolved.canonical) == (ranks not in (8, None))


def test_samples_per_gpu_stay_also_where_the_grid_is_another() -> None:
    """Twice the GPUs are twice the batch, whichever way they share a copy of the model."""
    resolved = run("model.tensor_model_parallel_size=2", recipe=DENSE, world_size=16, device="cuda")
    assert (resolved.config.train.global_batch_size, resolved.data_parallel_size) == (256, 4)


def test_the_log_is_told() -> None:
    resolved = run(recipe=EXPERTS, world_size=32, device="cuda")
    says(resolved.remarks[0], "32 ranks instead of 16", "64 sequences per GPU", "1024 -> 2048")
    assert resolved.canonical_differences == (
        "world size: 16 -> 32",
        "train.global_batch_size: 1024 -> 2048 (weak scaling)",
    )


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


ONE_GPU_A_COPY = tuple(f"model.{axis}_parallel_size=1" for axis in ("tensor_model", "pipeline_model", "context"))


@pytest.mark.parametrize(
    ("recipe", "words", "ranks", "parts"),
    [
        # Whole copies of the model come first, then groups of experts, then the batch.
        (DENSE, (), 5, ("world size 5 is not a multiple of 2",)),
        (LARGE, (), 64, ("world size 64 is not a multiple of 128", "--rehearse")),
        (EXPERTS, ("model.pipeline_model_parallel_size=4",), 18, ("world size 18 is not a multiple of 4",)),
        (EXPERTS, (), 8, ("the 8 ranks of a pipeline stage", "expert_model_parallel_size=16")),
        (EXPERTS, (), 24, ("the 24 ranks of a pipeline stage", "expert_model_parallel_size=16")),
        (
            LARGE,
            (*ONE_GPU_A_COPY, "model.virtual_pipeline_model_parallel_size=null"),
            3,
            ("world size 3", "768 of 512 ranks would become 4.5", "a multiple of 2 ranks", "-gb N"),
        ),
        (
            DENSE,
            ("train.micro_batch_size=3",),
            8,
            ("train.global_batch_size=128 is not a multiple of 12", "the nearest is 120 or 132"),
        ),
        (
            DENSE,
            ("train.micro_batch_size=3",),
            10,
            ("train.global_batch_size=160, weakly scaled from the recipe's 128, is not a multiple of 15", "150 or 165"),
        ),
    ],
)
def test_ranks_that_do_not_fit_are_refused(
    recipe: str, words: tuple[str, ...], ranks: int, parts: tuple[str, ...]
) -> None:
    says(refusal(*words, recipe=recipe, world_size=ranks, device="cuda"), *parts)


def test_a_library_recipe_does_not_scale() -> None:
    """Its batch is one of training, whatever number of GPUs its name says."""
    resolved = run(recipe="qwen3_30b_a3b_pretrain_config", world_size=32, device="cuda")
    assert (resolved.config.train.global_batch_size, resolved.remarks) == (1024, ())
