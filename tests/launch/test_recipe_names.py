"""The name of a recipe tells its GPUs."""

import pytest

from trainwright.launch.recipe_names import hardware


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config", "h100"),
        ("deepseek_v3_pretrain_256gpu_vr200_fp8mx_large_scale_config", "vr200"),
        ("llama3_70b_sft_8gpu_gb200_nvfp4_config", "gb200"),
        ("gpt_oss_20b_peft_1gpu_h100_fp8cs_config", "h100"),
        ("vanilla_gpt_pretrain_config", None),
        ("qwen3_pretrain_16gpu_vr200_bf16", None),
        ("qwen3_pretrain_0gpu_vr200_bf16_config", None),
        ("qwen3_train_16gpu_vr200_bf16_config", None),
        ("qwen3_pretrain_16gpu_vr200_fp16_config", None),
        ("x_pretrain_8gpu_vr200_bf16_config\n", None),
        ("", None),
    ],
)
def test_only_a_benchmark_name_says_so(name: str, kind: str | None) -> None:
    """Task, number of GPUs, their kind, precision, and a variant that may be missing."""
    assert hardware(name) == kind
