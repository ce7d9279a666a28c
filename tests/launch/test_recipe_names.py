"""The name of a recipe tells its GPUs."""

import pytest

from trainwright.launch.recipe_names import gpu_count, hardware, size_note


@pytest.mark.parametrize(
    ("name", "kind", "gpus"),
    [
        ("qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config", "h100", 16),
        ("deepseek_v3_pretrain_256gpu_vr200_fp8mx_large_scale_config", "vr200", 256),
        ("llama3_70b_sft_8gpu_gb200_nvfp4_config", "gb200", 8),
        ("gpt_oss_20b_peft_1gpu_h100_fp8cs_config", "h100", 1),
        ("vanilla_gpt_pretrain_config", None, None),
        ("qwen3_pretrain_16gpu_vr200_bf16", None, None),
        ("qwen3_pretrain_0gpu_vr200_bf16_config", None, None),
        ("qwen3_train_16gpu_vr200_bf16_config", None, None),
        ("qwen3_pretrain_16gpu_vr200_fp16_config", None, None),
        ("x_pretrain_8gpu_vr200_bf16_config\n", None, None),
        ("", None, None),
    ],
)
def test_only_a_whole_name_says_so(name: str, kind: str | None, gpus: int | None) -> None:
    """Task, number of GPUs, their kind, precision, and a variant that may be missing."""
    assert (hardware(name), gpu_count(name)) == (kind, gpus)


def test_a_job_of_another_size_is_told_without_the_recipes() -> None:
    """A launcher that knows no catalogue cannot say what follows, but that there is something to follow."""
    words = ("--recipe", "qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config", "-ms", "10")
    assert size_note(words, 16) == ()
    assert size_note(("--recipe=vanilla_gpt_pretrain_config",), 16) == ()
    assert size_note(("--model", "qwen3_30b_a3b", "--mode", "pretrain"), 8) == ()
    (line,) = size_note(words, 8)
    assert "written for 16 GPUs and this job has 8" in line
    assert "keep samples per GPU, unless one is typed" in line
