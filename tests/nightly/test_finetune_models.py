"""Adapters of every public recipe at its full size, each expert's too, counted against the arithmetic."""

import pytest
from tests.runner.test_finetune_models import trained

from trainwright.recipes.library import RECIPES
from trainwright.runner.testing import run_ranks

NAMES = [recipe.shown for recipe in RECIPES if recipe.task == "peft" and recipe.precision == "bf16"]


@pytest.mark.distributed
def test_every_recipe_trains_as_many_parameters_as_its_arithmetic_says() -> None:
    """On a rank of the first pipeline stage and of the last."""
    (found,) = run_ranks(trained, 1, NAMES, timeout=900)
    assert found.keys() == set(NAMES)
    assert {name: pairs for name, pairs in found.items() if any(built != said for built, said in pairs)} == {}
