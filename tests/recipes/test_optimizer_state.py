"""Types of the optimizer's state: a recipe's go with its optimizer, typed ones are never changed."""

import pytest
from recipes_runs import refusal, run, says

from trainwright.recipes import estimate

DEEPSEEK, QWEN = "deepseek_v3_pretrain_config", "qwen3_8b_pretrain_config"
TYPES = ("main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype")
PUBLIC = ["bfloat16", "float32", "bfloat16", "bfloat16"]


def types(*words: str, device: str = "cuda") -> list[str]:
    optimizer = run(*words, recipe=DEEPSEEK, world_size=1024, device=device).config.optimizer
    return [getattr(optimizer, name) for name in TYPES]


@pytest.mark.parametrize(
    ("words", "device", "expected"),
    [
        ((), "cuda", PUBLIC),
        ((), "cpu", ["float32"] * 4),
        (("optimizer.use_precision_aware_optimizer=false",), "cuda", ["float32"] * 4),
        (("optimizer.optimizer=sgd",), "cuda", ["float32"] * 4),
        (("optimizer.use_distributed_optimizer=false",), "cuda", ["float32"] * 4),
        (("optimizer.exp_avg_dtype=float32",), "cuda", ["bfloat16", "float32", "float32", "bfloat16"]),
    ],
)
def test_types_go_with_the_optimizer_that_has_them(words: tuple[str, ...], device: str, expected: list[str]) -> None:
    assert types(*words, device=device) == expected


def test_a_typed_type_without_that_optimizer_is_refused() -> None:
    says(
        refusal("optimizer.exp_avg_dtype=bfloat16", device="cuda"),
        "optimizer.exp_avg_dtype=bfloat16",
        "optimizer.use_precision_aware_optimizer=false",
        "has to be float32",
    )


def test_that_optimizer_typed_where_it_cannot_be_is_refused() -> None:
    words = ("optimizer.use_precision_aware_optimizer=true", "optimizer.optimizer=sgd")
    says(refusal(*words, recipe=DEEPSEEK, world_size=1024, device="cuda"), "needs optimizer.optimizer=adam")


def test_moments_of_16_bits_are_half_of_the_estimate_s_moments() -> None:
    """10 bytes a parameter become 6: two moments of 2, and the 16 bits that bf16 weights lack."""
    words = ("model.vocab_size=151936", "optimizer.exp_avg_dtype=bfloat16", "optimizer.exp_avg_sq_dtype=float16")
    full, half = (
        estimate(run(*each, recipe=QWEN, world_size=16, device="cuda")).memory.optimizer for each in (words[:1], words)
    )
    assert half * 10 == pytest.approx(full * 6, abs=100)
