"""Every benchmark is planned, with ranks of its stages built at their full size."""

from itertools import batched

import pytest

from trainwright.recipes import Selection, resolve
from trainwright.recipes.benchmarks import benchmarks
from trainwright.recipes.sizes import vocabulary_of
from trainwright.runner.testing import run_ranks

pytestmark = [pytest.mark.slow, pytest.mark.distributed]

AT_ONCE = 20
NAMES = [recipe.name for recipe in benchmarks() if recipe.known_invalid is None]


def planned(names: list[str]) -> dict[str, int]:
    """Bytes of the fullest rank of each; a rank that is not built as planned raises."""
    from trainwright.runner.plan import plan

    found = {}
    for name in names:
        resolved = resolve(Selection(recipe=name), [], world_size=None, device="cuda")
        found[name] = plan(resolved, vocabulary_of(resolved)).fullest.total
    return found


@pytest.mark.parametrize("names", list(batched(NAMES, AT_ONCE)), ids=lambda names: names[0])
def test_ranks_of_every_benchmark_are_built_as_planned(names):
    (found,) = run_ranks(planned, 1, list(names), timeout=1800)
    assert set(found) == set(names)
    assert all(found.values())
