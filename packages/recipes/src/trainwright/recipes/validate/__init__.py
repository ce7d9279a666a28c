"""Rules that a complete configuration has to satisfy, one file for each group."""

from collections.abc import Callable, Collection

from trainwright.recipes.errors import ConfigError
from trainwright.recipes.validate import (
    batches,
    carried,
    context_parallel,
    datasets,
    devices,
    environment,
    experts,
    extras,
    model,
    no_effect,
    optimizer,
    overlap,
    packing,
    parallelism,
    peft,
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
    *context_parallel.RULES,
    *peft.RULES,
    *batches.RULES,
    *rows.RULES,
    *packing.RULES,
    *datasets.RULES,
    *schedule.RULES,
    *optimizer.RULES,
    *overlap.RULES,
    *devices.RULES,
    *environment.RULES,
    *profiling.RULES,
    *no_effect.RULES,
)


def validate(plan: Plan, tolerated: Collection[str] = ()) -> tuple[str, ...]:
    """Apply every rule; returns the messages among `tolerated` that came up. Warnings go to the draft.

    Raises ConfigError at the first rule that is not satisfied, but for those messages.
    """
    met = []
    for rule in RULES:
        try:
            rule(plan)
        except ConfigError as error:
            if str(error) not in tolerated:
                raise
            met.append(str(error))
    return tuple(met)


def faults(plan: Plan) -> tuple[str, ...]:
    """What every rule that is not satisfied says. Whole copies of the model have to fill the ranks."""
    found = []
    for rule in RULES:
        try:
            rule(plan)
        except ConfigError as error:
            found.append(str(error))
    return tuple(found)
