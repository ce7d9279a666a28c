"""What makes a run another one than its recipe as it was written."""

from collections.abc import Mapping

from trainwright.recipes.build import build_config
from trainwright.recipes.comparison import listed
from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.draft import DEFAULT, DERIVED, RECIPE, Draft
from trainwright.recipes.library import Recipe
from trainwright.recipes.settle import settle


def as_written(recipe: Recipe) -> ConfigContainer:
    """The recipe's configuration with nothing typed, on GPUs; for the ranks that it was written for."""
    draft = Draft(recipe.build())
    settle(draft, recipe, recipe.world_size, device="cuda")
    return build_config(draft.tree())


def canonical_differences(
    recipe: Recipe, config: ConfigContainer, ranks: int, sources: Mapping[str, str]
) -> tuple[str, ...]:
    """`section.field: recipe's -> this run's (source)` for every field, and the world size where it is another.

    A variable that the recipe does not have is named without its value, which may be a secret.
    """
    sizes = [f"world size: {recipe.world_size} -> {ranks}"] if ranks != recipe.world_size else []
    if not sizes and set(sources.values()) <= {DEFAULT, RECIPE, DERIVED}:
        return ()
    before, after = listed(as_written(recipe)), listed(config)
    return (
        *sizes,
        *(
            f"{path}: {before.get(path, 'null')} -> {_shown(path, before, after)} ({sources.get(path, 'taken out')})"
            for path in dict.fromkeys([*before, *after])
            if before.get(path, "null") != after.get(path, "null")
        ),
    )


def _shown(path: str, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    return "set" if path.startswith("env_vars.") and path not in before else after.get(path, "null")
