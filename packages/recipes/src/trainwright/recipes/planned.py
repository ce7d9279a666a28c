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


@cache
def _public_recipes() -> frozenset[str]:
    text = files("trainwright.recipes").joinpath("public_recipes.txt").read_text(encoding="utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


def is_planned_recipe(name: str) -> bool:
    """Whether a public recipe of this name exists, in Megatron Bridge's library or its benchmarks."""
    return name in _public_recipes()


def why_planned(name: str) -> str:
    """What a library recipe of this name waits for, where the name says it: words to go on with, or nothing."""
    low = any(precision in name for precision in ("fp8", "fp4", "low_precision"))
    return ", as no recipe of the library in fp8 or fp4 is" if low else ""
