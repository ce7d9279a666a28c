"""What section `comm_overlap` means for the switches that Megatron Core reads."""

from typing import Any

import pytest
from recipes_runs import LLAMA, refusal, run, says, value

BENCHMARK = "llama31_405b_pretrain_128gpu_b200_bf16_config"
"""Tensor and an interleaved pipeline parallelism, two data parallel ranks."""
SWITCHES = ("ddp.overlap_grad_reduce", "ddp.overlap_param_gather", "ddp.align_param_gather", "ddp.bucket_size")
SENDS = ("model.overlap_p2p_comm", "model.batch_p2p_comm")


def benchmark(*words: str, **options: Any) -> Any:
    return run(*words, recipe=BENCHMARK, world_size=None, device="cuda", **options)


def switches(*words: str) -> list[Any]:
    return [value(benchmark(*words).config, path) for path in SWITCHES]


def test_a_field_that_says_nothing_is_decided_by_the_topology() -> None:
    assert switches() == [True, True, True, 128 * 2**20]
    assert switches("model.virtual_pipeline_model_parallel_size=null") == [True, True, False, 128 * 2**20]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("comm_overlap.overlap_grad_reduce=false", [False, False, True, 128 * 2**20]),
        ("comm_overlap.overlap_param_gather=false", [True, False, True, 128 * 2**20]),
        ("comm_overlap.align_param_gather=false", [True, True, False, 128 * 2**20]),
        ("ddp.overlap_param_gather=false", [True, False, True, 128 * 2**20]),
        ("ddp.bucket_size=1000", [True, True, True, 1000]),
    ],
)
def test_a_typed_word_decides(word: str, expected: list[Any]) -> None:
    assert switches(word) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), [True, False]),
        (("model.virtual_pipeline_model_parallel_size=null",), [False, True]),
        (("model.pipeline_model_parallel_size=1", "model.virtual_pipeline_model_parallel_size=null"), [False, False]),
    ],
)
def test_an_interleaved_pipeline_sends_behind_computation(words: tuple[str, ...], expected: list[bool]) -> None:
    resolved = benchmark(*words)
    assert [value(resolved.config, path) for path in SENDS] == expected


def test_without_the_section_nothing_follows() -> None:
    """The library's recipes have none."""
    config = run(recipe=LLAMA, world_size=2, device="cuda").config
    assert config.comm_overlap is None
    assert value(config, "ddp.bucket_size") is None
    assert value(config, "model.overlap_p2p_comm") is None


def test_an_optimizer_that_is_not_split_keeps_its_own_switches() -> None:
    """Muon's is shared out by layers."""
    config = run(recipe="kimi_k2_pretrain_256gpu_gb200_bf16_config", world_size=None, device="cuda").config
    assert [value(config, path) for path in SWITCHES] == [True, False, False, None]


@pytest.mark.parametrize(
    "words",
    [
        ("comm_overlap.overlap_grad_reduce=true", "ddp.overlap_grad_reduce=false"),
        ("comm_overlap.overlap_param_gather=true", "ddp.overlap_grad_reduce=false"),
    ],
)
def test_two_words_against_each_other_are_refused(words: tuple[str, str]) -> None:
    message = refusal(*words, recipe=BENCHMARK, world_size=None, device="cuda")
    says(message, words[0], "does not go with ddp.")


def test_a_benchmark_in_bf16_gets_the_optimizer_that_spares_memory() -> None:
    """On GPUs, with Adam, unless somebody says otherwise."""
    path = "optimizer.use_precision_aware_optimizer"
    assert value(benchmark().config, path)
    assert not value(benchmark(f"{path}=false").config, path)
    assert not value(run(recipe=BENCHMARK, world_size=None).config, path)
    assert not value(run(recipe=BENCHMARK.replace("bf16", "fp8cs"), world_size=None, device="cuda").config, path)
    assert not value(run(recipe=LLAMA, world_size=1, device="cuda").config, path)


def test_what_products_in_eight_bits_need_goes_with_them() -> None:
    name = "deepseek_v3_pretrain_256gpu_gb300_fp8mx_config"
    options: dict[str, Any] = {"recipe": name, "world_size": None, "device": "cuda"}
    assert value(run(**options).config, "model.fp8_output_proj")
    assert not value(run("mixed_precision=bf16_mixed", **options).config, "model.fp8_output_proj")
    says(refusal("model.fp8_output_proj=true", "mixed_precision=bf16_mixed", **options), "model.fp8_output_proj=true")
