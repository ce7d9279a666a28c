"""Which forward step trains a recipe: one registry, whichever catalogue the recipe is in."""

TEXT = "llm_step"

STEPS = (TEXT, "gpt_step")
"""Forward steps of this version; both names are the text step."""

OF_NAMES = {
    "qwen3_vl_8b_peft_1gpu_h100_bf16_energon_config": "vlm_step",
    "qwen3_vl_8b_peft_energon_config": "vlm_step",
}

OF_PREFIXES = {
    "nemotron_nano_v2_vl_": "llava_step",
    "nemotron_omni_": "nemotron_omni_step",
    "qwen2_audio_": "audio_lm_step",
    "qwen3_omni_": "qwen3_omni_step",
    "qwen3_vl_": "qwen3_vl_step",
    "qwen35_vl_": "qwen3_vl_step",
    "step37_": "step37_flickr8k_step",
    "gemma3_vl_": "vlm_step",
    "gemma4_vl_": "vlm_step",
    "glm_45v_": "vlm_step",
    "kimi_k25_vl_": "vlm_step",
    "ministral3_": "vlm_step",
    "qwen25_vl_": "vlm_step",
    "flux_": "flux_step",
    "wan_": "wan_step",
}


def step_of(name: str) -> str:
    """The step of the public recipe `name`: by its whole name, else by how it begins, else the text step."""
    if name in OF_NAMES:
        return OF_NAMES[name]
    return next((step for prefix, step in OF_PREFIXES.items() if name.startswith(prefix)), TEXT)
