"""Adapters of public recipes at their full size, as the ranks that they were written for would build them.

Without memory and without the other ranks, as a plan builds them.
"""

from collections.abc import Sequence

import pytest

from trainwright.recipes import Selection, resolve
from trainwright.recipes.adapters import stage_adapters
from trainwright.runner.testing import run_ranks

SOME = ("llama31_405b_peft_config", "qwen3_30b_a3b_peft_config", "moonlight_16b_peft_config")
"""A pipeline of many chunks; experts, of which only attention gets adapters; latent attention."""


def trained(names: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    """By recipe, for a rank of its first and of its last stage: parameters trained, and what arithmetic says."""
    from trainwright.runner.plan.meta import build

    found = {}
    for name in names:
        run = resolve(Selection(recipe=name), [], world_size=None, device="cuda")
        assert run.config.peft is not None
        counts = stage_adapters(run.config.model, run.config.peft)
        stages = sorted({0, len(counts) - 1})
        ranks = [stage * run.world_size // len(counts) for stage in stages]
        built = [build(run, rank, run.config.model.vocab_size or 257).trainable for rank in ranks]
        found[name] = list(zip(built, [counts[stage].total for stage in stages], strict=True))
    return found


@pytest.mark.distributed
def test_a_recipe_trains_as_many_parameters_as_its_arithmetic_says() -> None:
    """On each rank. All recipes: tests/nightly."""
    (found,) = run_ranks(trained, 1, SOME, timeout=500)
    assert found.keys() == set(SOME)
    assert {name: pairs for name, pairs in found.items() if any(built != said for built, said in pairs)} == {}
