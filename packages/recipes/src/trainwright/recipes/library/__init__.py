"""The recipes of this version, one module a family."""

from trainwright.recipes.library import deepseek, glm45, gpt, gpt_oss, llama, qwen3, qwen3_moe
from trainwright.recipes.library.recipe import Recipe

__all__ = ["RECIPES", "Recipe", "find_recipe", "recipe_names"]

_FAMILIES = (gpt, llama, qwen3, qwen3_moe, gpt_oss, deepseek, glm45)

RECIPES: tuple[Recipe, ...] = tuple(recipe for family in _FAMILIES for recipe in family.RECIPES)


def find_recipe(name: str) -> Recipe | None:
    """The recipe of a concrete or generic name."""
    return next((recipe for recipe in RECIPES if name in (recipe.name, recipe.alias)), None)


def recipe_names() -> tuple[str, ...]:
    """Every name that `--recipe` takes."""
    return tuple(name for recipe in RECIPES for name in (recipe.alias, recipe.name) if name is not None)
