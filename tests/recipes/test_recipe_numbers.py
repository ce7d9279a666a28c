"""The recipes hold the numbers of their public originals.

`data/public_recipes.json` holds those numbers; `data/MANIFEST.md` says where they come from.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from recipes_runs import value

from trainwright.recipes import ConfigContainer, Selection, resolve
from trainwright.recipes.library import RECIPES

PUBLIC: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "public_recipes.json").read_text(encoding="utf-8")
)


def test_every_recipe_with_an_original_is_compared() -> None:
    assert set(PUBLIC) == {recipe.name for recipe in RECIPES if not recipe.own}


@pytest.mark.parametrize(
    ("name", "path"), [(name, path) for name, fields in PUBLIC.items() for path in fields], ids=lambda text: text
)
def test_a_number_is_the_public_one(name: str, path: str) -> None:
    assert value(resolved(name), path) == PUBLIC[name][path]


@cache
def resolved(name: str) -> ConfigContainer:
    return resolve(Selection(recipe=name), [], world_size=None, device="cuda").config
