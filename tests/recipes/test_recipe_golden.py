"""The resolved configuration of every recipe, as committed."""

from pathlib import Path
from typing import Literal

import pytest

from trainwright.recipes import Selection, from_yaml, resolve, to_yaml
from trainwright.recipes.library import RECIPES, Recipe

GOLDEN = Path(__file__).parent / "golden"
UPDATE = "pytest tests/recipes --update-golden"
DEVICES: tuple[Literal["cpu", "cuda"], ...] = ("cpu", "cuda")


def golden_path(recipe: Recipe, device: str) -> Path:
    return GOLDEN / f"{recipe.alias.removesuffix('_config')}.{device}.yaml"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.alias)
def test_the_resolved_recipe_is_the_committed_one(
    recipe: Recipe, device: Literal["cpu", "cuda"], request: pytest.FixtureRequest
) -> None:
    """A change of a recipe, a default or the derivation shows as a diff that somebody reads."""
    config = resolve(Selection(recipe=recipe.name), [], world_size=None, device=device).config
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
