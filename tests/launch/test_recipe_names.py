"""The name of a recipe tells its GPUs."""

import pytest

from trainwright.launch.recipe_names import gpu_count, hardware, is_benchmark_name


@pytest.mark.parametrize(
    ("name", "gpus", "kind"),
    [
        ("qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config", 16, "h100"),
        ("deepseek_v3_pretrain_256gpu_vr200_fp8mx_large_scale_config", 256, "vr200"),
        ("llama3_70b_sft_8gpu_gb200_nvfp4_config", 8, "gb200"),
        ("gpt_oss_20b_peft_1gpu_h100_fp8cs_config", 1, "h100"),
        ("vanilla_gpt_pretrain_config", None, None),
        ("qwen3_pretrain_16gpu_vr200_bf16", None, None),
        ("qwen3_pretrain_0gpu_vr200_bf16_config", None, None),
        ("qwen3_train_16gpu_vr200_bf16_config", None, None),
        ("qwen3_pretrain_16gpu_vr200_fp16_config", None, None),
        ("x_pretrain_8gpu_vr200_bf16_config\n", None, None),
        ("", None, None),
    ],
)
def test_only_a_benchmark_name_says_so(name: str, gpus: int | None, kind: str | None) -> None:
    """Task, number of GPUs, their kind, precision, and a variant that may be missing."""
    assert (is_benchmark_name(name), gpu_count(name), hardware(name)) == (gpus is not None, gpus, kind)
