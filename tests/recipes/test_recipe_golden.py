"""The resolved configuration of some recipes, as committed: one of each kind of architecture and task."""

from pathlib import Path
from typing import Literal

import pytest

from trainwright.recipes import Selection, from_yaml, resolve, to_yaml

GOLDEN = Path(__file__).parent / "golden"
UPDATE = "pytest tests/recipes --update-golden"
RECIPES = tuple(
    f"{name}_config"
    for name in (
        "vanilla_gpt_pretrain",
        "vanilla_gpt_sft",
        "llama32_1b_pretrain",
        "llama32_1b_sft",
        "qwen3_30b_a3b_pretrain",
        "gpt_oss_20b_pretrain",
        "deepseek_v3_pretrain",
        "moonlight_16b_peft",
    )
)
DEVICES: tuple[Literal["cpu", "cuda"], ...] = ("cpu", "cuda")


def golden_path(recipe: str, device: str) -> Path:
    return GOLDEN / f"{recipe.removesuffix('_config')}.{device}.yaml"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("recipe", RECIPES)
def test_the_resolved_recipe_is_the_committed_one(
    recipe: str, device: Literal["cpu", "cuda"], request: pytest.FixtureRequest
) -> None:
    """A change of a recipe, a default or the derivation shows as a diff that somebody reads."""
    config = resolve(Selection(recipe=recipe), [], world_size=None, device=device).config
    path = golden_path(recipe, device)
    if request.config.getoption("--update-golden", default=False):
        path.write_text(to_yaml(config), encoding="utf-8")
    assert path.is_file(), f"no {path}; make it with: {UPDATE}"
    committed = path.read_text(encoding="utf-8")
    assert to_yaml(config) == committed, f"{path.name} differs; if the change is meant, run: {UPDATE}"
    assert from_yaml(committed) == config


def test_no_golden_file_is_left_over() -> None:
    assert {path.name for path in GOLDEN.iterdir()} == {
        golden_path(recipe, device).name for recipe in RECIPES for device in DEVICES
    }
