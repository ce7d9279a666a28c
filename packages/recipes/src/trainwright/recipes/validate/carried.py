"""Fields that this version records without acting on them: a recipe may bring them, nobody can type them."""

from trainwright.recipes.carried import CARRIED, RECORDED, REFUSED, off
from trainwright.recipes.draft import show
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.validate.plan import Plan


def recorded_fields_are_not_typed(plan: Plan) -> None:
    """Only the recipe's own value, or the one that is off, may be typed."""
    for path in RECORDED:
        value = plan.draft[path]
        if not plan.draft.typed(path) or value == off(path):
            continue
        if plan.device == "cpu" or plan.draft.changed(path):
            raise ConfigError(f"{path}={show(value)} is not available yet; off is {show(off(path))}")


def what_is_left_out_is_named(plan: Plan) -> None:
    """One line for all that a run on GPUs leaves out."""
    if plan.device != "cuda":
        return
    on = [path for path in CARRIED if path in plan.draft.values and plan.draft[path] != off(path)]
    if on:
        listed = ", ".join(f"{path}={show(plan.draft[path])}" for path in on)
        plan.draft.warn(f"recorded, but not acted on by this version: {listed}")


def what_no_run_starts_with_is_named(plan: Plan) -> None:
    """To look at such a recipe is allowed, and so is to rehearse it."""
    for path in REFUSED:
        if plan.device == "cuda" and path in plan.draft.values and plan.draft[path] != off(path):
            plan.draft.warn(
                f"{path}={show(plan.draft[path])} is recorded but not available yet, and no run on GPUs starts with "
                f"it; {path}={show(off(path))} trains without"
            )


RULES = (recorded_fields_are_not_typed, what_is_left_out_is_named, what_no_run_starts_with_is_named)
