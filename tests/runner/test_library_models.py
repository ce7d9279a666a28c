"""Every pretraining recipe's model at its full size, as the ranks that it was written for would build it.

Weights are on PyTorch's `meta` device and other ranks are its fake process group, as in a plan, so a rank of 1024 is
built in a second. What it computes, small models show elsewhere.
"""

import pytest

from trainwright.recipes import Selection, resolve
from trainwright.recipes.library import RECIPES
from trainwright.recipes.parameters import stage_parameters
from trainwright.runner.testing import run_ranks

VOCABULARY = 163_840
NAMES = [recipe.name for recipe in RECIPES if recipe.task == "pretrain"]


def built(names: list[str]) -> dict[str, tuple[list[int], int]]:
    """For each recipe: parameters on a rank of its first, middle and last stage, and on the fullest as estimated."""
    from trainwright.runner.plan.meta import build

    counts = {}
    for name in names:
        run = resolve(Selection(recipe=name), [f"model.vocab_size={VOCABULARY}"], world_size=None, device="cpu")
        fullest = max(stage.total for stage in stage_parameters(run.config.model, VOCABULARY))
        ranks = sorted({0, run.world_size // 2, run.world_size - 1})
        counts[name] = ([build(run, rank, VOCABULARY).parameters for rank in ranks], fullest)
    return counts


@pytest.mark.slow
@pytest.mark.distributed
def test_every_recipe_builds_at_its_size_with_as_many_parameters_as_estimated() -> None:
    """On the fullest rank exactly; all recipes in one process, which is most of the time."""
    (counts,) = run_ranks(built, 1, NAMES, timeout=500)
    assert set(counts) == set(NAMES)
    assert {name: numbers for name, (numbers, fullest) in counts.items() if max(numbers) != fullest} == {}
