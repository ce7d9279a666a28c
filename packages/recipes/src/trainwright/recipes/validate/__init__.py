"""Rules that a complete configuration has to satisfy, one file for each group."""

from collections.abc import Callable

from trainwright.recipes.validate import (
    batches,
    carried,
    datasets,
    devices,
    environment,
    experts,
    extras,
    model,
    no_effect,
    optimizer,
    packing,
    parallelism,
    profiling,
    rows,
    schedule,
)
from trainwright.recipes.validate.plan import Plan

Rule = Callable[[Plan], None]

# Sizes before what is computed from them; the grid of ranks before the batches that it divides.
RULES: tuple[Rule, ...] = (
    *carried.RULES,
    *extras.RULES,
    *model.RULES,
    *experts.RULES,
    *parallelism.RULES,
    *batches.RULES,
    *rows.RULES,
    *packing.RULES,
    *datasets.RULES,
    *schedule.RULES,
    *optimizer.RULES,
    *devices.RULES,
    *environment.RULES,
    *profiling.RULES,
    *no_effect.RULES,
)


def validate(plan: Plan) -> None:
    """Apply every rule. Raises ConfigError at the first that is not satisfied; warnings go to the draft."""
    for rule in RULES:
        rule(plan)
