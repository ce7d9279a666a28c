"""docs/recipes.md names every recipe, with the GPUs that it was written for."""

import re
from collections import Counter
from pathlib import Path

import pytest

from trainwright.recipes.benchmarks import benchmarks
from trainwright.recipes.library import RECIPES, find_recipe

BENCHMARKS = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## What there is\n")[2].partition("\n## ")[0]


HEADINGS = {"pretrain": "Pretraining", "sft": "Fine-tuning of all weights", "peft": "Adapters"}


@pytest.mark.parametrize("task", HEADINGS)
def test_every_model_stands_there_with_its_gpus(task: str) -> None:
    part = SECTION.partition(f"### {HEADINGS[task]}\n")[2].partition("\n### ")[0]
    documented = re.findall(r"`([a-z0-9_]+)` \((\d+)\)", part)
    named = [recipe for recipe in RECIPES if recipe.task == task and recipe.model]
    assert sorted(documented) == sorted((recipe.model, str(recipe.world_size)) for recipe in named)


def test_every_other_recipe_stands_there_by_name() -> None:
    """And no recipe that does not exist."""
    documented = set(re.findall(r"`([a-z0-9_]+_config)`", SECTION))
    assert {recipe.shown for recipe in RECIPES if not recipe.model} <= documented
    assert [name for name in documented if find_recipe(name) is None] == []


def test_the_page_of_benchmarks_counts_them_by_model_and_gpu() -> None:
    """And their sum stands on the page of recipes."""
    table = [line.strip("|").split("|") for line in BENCHMARKS.splitlines() if line.startswith("|")]
    head, _, *rows = table[: [row[0].strip() for row in table].index("`kimi_k2`") + 1]
    documented = {
        (row[0].strip(" `"), gpu.strip()): int(number)
        for row in rows
        for gpu, number in zip(head[1:], row[1:], strict=True)
        if int(number)
    }
    assert documented == Counter((recipe.stem, recipe.hardware) for recipe in benchmarks())
    assert f"{len(benchmarks())} benchmark recipes" in PAGE
