"""A small run to hang one more word on."""

from collections.abc import Sequence
from typing import Any

import pytest

from trainwright.recipes import ConfigContainer, ConfigError, ResolvedRun, Selection, resolve
from trainwright.recipes.fields import leaves

GPT = "vanilla_gpt_pretrain_config"
LLAMA = "llama32_1b_pretrain_config"
SFT = "vanilla_gpt_sft_config"
PACKED = "llama32_1b_sft_config"


def run(
    *words: str,
    recipe: str = GPT,
    dataset: str | None = None,
    world_size: int | None = 1,
    device: Any = "cpu",
    flags: dict[str, str] | None = None,
    deterministic: bool = False,
) -> ResolvedRun:
    """Resolve a recipe with trailing words."""
    selection = Selection(recipe=recipe, dataset=dataset)
    return resolve(selection, words, world_size=world_size, device=device, flags=flags, deterministic=deterministic)


def value(config: ConfigContainer, path: str) -> Any:
    """The value at `section.field`, extra fields of the model and sections inside sections included."""
    return dict(leaves(config.model_dump())).get(path)


def refusal(*words: str, **options: Any) -> str:
    """The one line with which a run is refused."""
    with pytest.raises(ConfigError) as caught:
        run(*words, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.exit_code == 2
    return message


def says(message: str, *parts: str) -> None:
    """Assert that a message holds every part."""
    missing: Sequence[str] = [part for part in parts if part not in message]
    assert not missing, f"{message!r} does not say {missing}"
