"""How long does it take to resolve every recipe there is, beside building their configurations?

    python benchmarks/catalogue.py [--rounds 5]

Building fills a recipe's sections from its row; resolving lays the device's values over it, derives what follows and
applies every rule. The ratio, the median over interleaved rounds, says what all that costs beside reading the tables.
The whole catalogue should resolve in less than 5 seconds on a quiet machine, for either device.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Literal

from trainwright.recipes import Selection, resolve
from trainwright.recipes.library import Recipe
from trainwright.recipes.selection import TASKS, all_recipes

MOST = 5.0
MODES = {task: mode for mode, task in reversed(TASKS.items())}
"""A recipe's task -> the `--mode` that it is resolved with."""


def resolved(recipes: tuple[Recipe, ...], device: Literal["cpu", "cuda"]) -> None:
    """Resolve them all at the sizes that they were written for."""
    for recipe in recipes:
        resolve(Selection(recipe=recipe.name, mode=MODES[recipe.task]), [], world_size=None, device=device)


def built(recipes: tuple[Recipe, ...]) -> None:
    """Build their configurations, and nothing else."""
    for recipe in recipes:
        recipe.build()


def main() -> None:
    """Print seconds and ratios, how to read them, and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    recipes = all_recipes()
    work: dict[str, Callable[[], None]] = {
        "build": lambda: built(recipes),
        "resolve for cuda": lambda: resolved(recipes, "cuda"),
        "resolve for cpu": lambda: resolved(recipes, "cpu"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, do in work.items():
            began = time.perf_counter()
            do()
            seconds[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    for name, median in medians.items():
        beside = statistics.median(one / other for one, other in zip(seconds[name], seconds["build"], strict=True))
        print(f"{name:<16}  {median:>6.2f} s  {beside:>6.2f} x building")
    slowest = max(medians.values())
    print(f"\n{len(recipes)} recipes took {slowest:.2f} s at most; on a quiet machine it should be below {MOST:g} s.")
    print(json.dumps({"benchmark": "catalogue", "recipes": len(recipes), "seconds": medians, "most": MOST}))


if __name__ == "__main__":
    main()
