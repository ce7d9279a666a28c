"""Public benchmark recipes that cannot run as they stand, and why."""

_EXPERTS = "expert times pipeline parallelism does not divide its GPUs"
_CHUNKS = "its pipeline layout has 16 chunks, and its 4 stages of 2 virtual ones hold 8"
_CACHE = "its source loads cached sample indices, and names no cache to load them from"
_WARMUP = f"{_CACHE}; and its learning rate would still rise when its 50 updates are done"
_KNOBS = "its source gives two numbers of multiprocessors, DeepEP's and HybridEP's, and takes one"

MENDED_BY = {
    _CACHE: ("dataset.path_to_cache",),
    _WARMUP: ("dataset.path_to_cache",),
    _KNOBS: ("model.moe_deepep_num_sms",),
}
"""Why -> the fields of which one has to be changed, where no rule of this version sees what the source refuses."""

_NAMES: dict[str, tuple[str, ...]] = {
    _EXPERTS: (
        "deepseek_v3_pretrain_64gpu_h100_bf16",
        "deepseek_v3_pretrain_64gpu_h100_fp8cs",
        "deepseek_v3_pretrain_128gpu_vr200_bf16",
        "deepseek_v3_pretrain_128gpu_vr200_fp8cs",
        "deepseek_v3_pretrain_128gpu_vr200_fp8mx",
        "deepseek_v3_pretrain_128gpu_vr200_nvfp4",
        "qwen3_235b_a22b_pretrain_64gpu_gb200_fp8cs",
        "qwen3_235b_a22b_pretrain_64gpu_gb200_fp8mx",
        "qwen3_235b_a22b_pretrain_64gpu_gb200_nvfp4",
        "qwen3_235b_a22b_pretrain_64gpu_gb300_bf16",
        "qwen3_235b_a22b_pretrain_64gpu_gb300_fp8cs",
        "qwen3_235b_a22b_pretrain_64gpu_gb300_fp8mx",
        "qwen3_235b_a22b_pretrain_64gpu_gb300_nvfp4",
    ),
    _CHUNKS: (
        "deepseek_v3_pretrain_256gpu_gb200_fp8mx_partial_cg_dev",
        "deepseek_v3_pretrain_256gpu_gb300_fp8mx_partial_cg_dev",
    ),
    _KNOBS: ("qwen3_235b_a22b_pretrain_128gpu_b200_fp8mx_deepep_dev",),
    _CACHE: (
        "gpt_oss_20b_pretrain_8gpu_vr200_fp8mx",
        "gpt_oss_20b_pretrain_512gpu_gb200_fp8mx",
        "gpt_oss_20b_pretrain_512gpu_gb300_fp8mx",
    ),
    _WARMUP: (
        "gpt_oss_20b_pretrain_8gpu_b300_fp8mx",
        "gpt_oss_20b_pretrain_8gpu_b300_nvfp4",
        "gpt_oss_20b_pretrain_8gpu_gb200_nvfp4",
        "gpt_oss_20b_pretrain_8gpu_gb300_nvfp4",
        "gpt_oss_20b_pretrain_8gpu_vr200_nvfp4",
        "gpt_oss_20b_pretrain_64gpu_b300_fp8mx",
        "gpt_oss_20b_pretrain_64gpu_b300_nvfp4",
        "gpt_oss_20b_pretrain_64gpu_vr200_nvfp4",
        "gpt_oss_20b_pretrain_72gpu_gb200_nvfp4",
        "gpt_oss_20b_pretrain_72gpu_gb300_nvfp4",
    ),
}

KNOWN_INVALID: dict[str, str] = {f"{name}_config": reason for reason, names in _NAMES.items() for name in names}
"""Name -> why. What the source's own validation refuses is here too, also where no rule of this version would."""
