"""Every family that is known, and which one a folder or a model belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.runner.errors import RunRefused
from trainwright.runner.huggingface import deepseek, glm45, gpt_oss, llama, qwen3, qwen3_moe
from trainwright.runner.huggingface.family import Family
from trainwright.runner.huggingface.fields import Fields
from trainwright.runner.huggingface.folder import CONFIG, HuggingFaceFolder

if TYPE_CHECKING:
    from trainwright.recipes.config.model import ModelConfig

FAMILIES = {
    name: module.FAMILY
    for module in (llama, qwen3, qwen3_moe, gpt_oss, deepseek, glm45)
    for name in (module.FAMILY.model_type, *module.FAMILY.further_types)
}
"""By the word of `config.json`."""


def family_of_folder(folder: HuggingFaceFolder) -> tuple[Family, ModelConfig, list[str]]:
    """The family, our configuration of the model, and what to tell of how `config.json` was read.

    Raises:
        RunRefused: the family is not known, or something in `config.json` is not.
    """
    where = folder.path / CONFIG
    kind = folder.config.get("model_type")
    if kind not in FAMILIES:
        raise RunRefused(f"{where}: model_type={kind!r} is not known here; it can be {', '.join(FAMILIES)}")
    fields = Fields(folder.config, where, folder.shapes)
    model = FAMILIES[kind].model_config(fields)
    unread = fields.unread()
    return FAMILIES[kind], model, [*fields.remarks, *([f"not read: {', '.join(unread)}"] if unread else [])]


def family_of_model(model: ModelConfig) -> Family:
    """The family whose `config.json` says all that `model` says.

    Raises:
        RunRefused: there is none; the nearest one is named, and what it has no word for.
    """
    lost = {family.model_type: family.lost(model) for family in FAMILIES.values()}
    nearest = min(lost, key=lambda name: len(lost[name]))
    if lost[nearest]:
        raise RunRefused(
            f"no family known here has such a model; as {nearest} it would change: {'; '.join(lost[nearest][:3])}"
        )
    return FAMILIES[nearest]
