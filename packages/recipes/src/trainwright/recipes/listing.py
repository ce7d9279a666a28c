"""The catalogue as a table, whole or in part."""

from typing import NamedTuple

from trainwright.recipes.errors import ConfigError
from trainwright.recipes.families import family_of
from trainwright.recipes.library import Recipe
from trainwright.recipes.nearest import did_you_mean
from trainwright.recipes.selection import all_recipes


class Listed(NamedTuple):
    """A recipe, column by column."""

    name: str
    model: str
    """What `--model` takes for it; a dash where only `--recipe` selects it."""
    family: str
    task: str
    gpus: str
    hardware: str
    precision: str
    catalogue: str


def listing(**asked: str | None) -> list[Listed]:
    """The recipes that have in each column what is `asked` for it; the library first.

    Raises ConfigError for what no recipe has.
    """
    rows = [_row(recipe) for recipe in all_recipes()]
    wanted = {column: value for column, value in asked.items() if value is not None}
    for column, value in wanted.items():
        there = sorted({getattr(row, column) for row in rows}, key=lambda text: (text.isdigit() and len(text), text))
        if value not in there:
            near = did_you_mean(value, there)
            raise ConfigError(f"--{column} {value}: no recipe has it; there are {', '.join(there)}{near}")
    return [row for row in rows if all(getattr(row, column) == value for column, value in wanted.items())]


def _row(recipe: Recipe) -> Listed:
    return Listed(
        recipe.shown,
        recipe.model or "-",
        family_of(recipe.name),
        recipe.task,
        str(recipe.world_size),
        recipe.hardware,
        recipe.precision,
        "benchmark" if recipe.benchmark else "library",
    )
