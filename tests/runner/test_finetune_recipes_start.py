"""Every fine-tuning recipe takes the weights of its model: what it sets beside the architecture changes no result."""

import pytest

from trainwright.recipes import ConfigContainer, Selection, resolve
from trainwright.recipes.library import RECIPES, Recipe
from trainwright.runner.huggingface.family import differences

FINETUNING = [recipe for recipe in RECIPES if recipe.task != "pretrain" and not recipe.own]


def resolved(recipe: Recipe) -> ConfigContainer:
    return resolve(Selection(recipe=recipe.shown), [], world_size=None, device="cuda").config


@pytest.mark.parametrize("recipe", FINETUNING, ids=lambda recipe: recipe.name)
def test_a_recipe_computes_what_its_pretraining_does(recipe: Recipe) -> None:
    """Whose architecture is held to the published one; weights of another are refused when a run starts."""
    pretraining = next(one for one in RECIPES if one.task == "pretrain" and one.stem == recipe.stem)
    assert differences(resolved(pretraining).model, resolved(recipe).model) == []
