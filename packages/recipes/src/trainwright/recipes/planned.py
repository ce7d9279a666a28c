"""Names that the field knows and this version does not serve yet: answered as such, never as unknown."""

from functools import cache
from importlib.resources import files

FIELDS_TO_COME = frozenset(
    f"dataset.{name}"
    for name in (
        "path",
        "hf_processor_path",
        "hf_output_root",
        "packing_buffer_size",
        "source",
        "validation_source",
        "test_source",
        "task_encoder",
        "micro_batch_size",
    )
)

DATASETS_TO_COME = ("energon", "local-vlm", "cord-v2", "medpix", "raven", "rdr", "llava-video-178k")

STEPS_TO_COME = (
    "audio_lm_step",
    "dsv4_step",
    "flux_step",
    "llava_step",
    "nemotron_omni_step",
    "qwen3_omni_step",
    "qwen3_vl_step",
    "step37_flickr8k_step",
    "vlm_step",
    "wan_step",
)


_NEMOTRON_CASCADE = "its dataset, nvidia/Nemotron-Cascade-2-SFT-Data, is not here"
WAITING = {
    "qwen3_600m_sft_8gpu_h100_bf16_yarn_128k_config": _NEMOTRON_CASCADE,
    "qwen3_600m_sft_yarn_128k_config": _NEMOTRON_CASCADE,
    "llama3_8b_pretrain_2gpu_h100_nvfp4_config": "it is not known how many of its blocks stay in 16 bits",
    "qwen3_30b_a3b_pretrain_8gpu_gb200_fp8mx_functional_config": "Transformer Engine's fused grouped products are not "
    "here",
}
"""Public recipes of models that are here -> what is missing."""


@cache
def _public_recipes() -> frozenset[str]:
    text = files("trainwright.recipes").joinpath("public_recipes.txt").read_text(encoding="utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


def is_planned_recipe(name: str) -> bool:
    """Whether a public recipe of this name exists, in Megatron Bridge's library or its benchmarks."""
    return name in _public_recipes()


def why_planned(name: str) -> str:
    """What a recipe of this name waits for, where its model is here: words to go on with, or nothing."""
    return f", for {WAITING[name]}" if name in WAITING else ""
