"""The benchmark recipes: exact names, one table a family.

The tables are read when they are first needed.
"""

from functools import cache

from trainwright.recipes.library.recipe import Recipe

__all__ = ["benchmarks", "find_benchmark"]


@cache
def benchmarks() -> tuple[Recipe, ...]:
    """Every benchmark recipe of this version, family by family."""
    from trainwright.recipes.benchmarks import deepseek, gpt_oss, llama, qwen3_moe

    return tuple(recipe for family in (llama, qwen3_moe, gpt_oss, deepseek) for recipe in family.RECIPES)


def find_benchmark(name: str) -> Recipe | None:
    """The benchmark recipe of an exact name."""
    return _by_name().get(name)


@cache
def _by_name() -> dict[str, Recipe]:
    return {recipe.name: recipe for recipe in benchmarks()}
