"""Every recipe that trains text, rehearsed on two ranks: benchmarks and the library's.

Recipes that shrink to the same configuration but for process environment share one run; a test's name is that of the
first of them and says how many more there are.
"""

from pathlib import Path

import pytest

from trainwright.recipes import ConfigError, ResolvedRun, Selection, resolve, to_yaml
from trainwright.recipes.selection import all_recipes
from trainwright.recipes.shrink import shrink
from trainwright.runner.rehearsal import rehearse

RANKS = 2


def resolved(name: str) -> ResolvedRun:
    return resolve(Selection(recipe=name), [], world_size=None, device="cuda")


def alike() -> dict[str, list[str]]:
    """Shrunk configuration -> the recipes that shrink to it."""
    found: dict[str, list[str]] = {}
    for recipe in all_recipes():
        try:
            run = shrink(resolved(recipe.shown), min(RANKS, recipe.world_size), "folder").run
            key = f"{run.world_size} {to_yaml(run.config.model_copy(update={'env_vars': {}}))}"
        except ConfigError:
            key = recipe.shown  # its test says why
        found.setdefault(key, []).append(recipe.shown)
    return found


CASES = [pytest.param(first, id=f"{first}+{len(others)}" if others else first) for first, *others in alike().values()]


@pytest.mark.distributed
@pytest.mark.parametrize("name", CASES)
def test_it_trains_and_its_checkpoint_brings_back_what_was_saved(name: str, tmp_path: Path) -> None:
    full = resolved(name)
    place = tmp_path / "run"
    done = rehearse(shrink(full, min(RANKS, full.world_size), str(place)), place)
    assert len(done.losses) == 5
    assert set(done.reloaded) == {4, 5}
