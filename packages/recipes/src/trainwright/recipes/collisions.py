"""Names that two public recipes share, a benchmark and one of the library. The list is closed: new names are unique."""

COLLISIONS: dict[str, str | None] = {
    "deepseek_v3_pretrain_1024gpu_h100_bf16_config": "deepseek_v3_pretrain_config",
    "glm52_sft_192gpu_gb200_bf16_config": None,
    "glm52_sft_416gpu_h100_bf16_config": None,
    "gpt_oss_120b_pretrain_64gpu_h100_bf16_config": "gpt_oss_120b_pretrain_config",
    "llama3_70b_peft_8gpu_h100_bf16_config": "llama3_70b_peft_config",
    "llama3_70b_sft_32gpu_h100_bf16_config": "llama3_70b_sft_config",
    "nemotron_3_nano_pretrain_8gpu_gb200_bf16_config": "nemotron_3_nano_gb200_pretrain_config",
    "nemotron_3_super_pretrain_64gpu_gb200_bf16_config": None,
    "qwen3_235b_a22b_pretrain_256gpu_h100_bf16_config": "qwen3_235b_a22b_pretrain_config",
    "qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config": "qwen3_30b_a3b_pretrain_config",
}
"""The name, which selects the benchmark -> the library recipe's other name, where it has one."""
