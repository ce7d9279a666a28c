"""Public recipes that cannot run as they stand: they resolve with a mark, and no run of them starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.recipes.benchmarks.known_invalid import MENDED_BY
from trainwright.recipes.build import build_config
from trainwright.recipes.carried import why_refused
from trainwright.recipes.device_layer import DeviceKind, apply_device
from trainwright.recipes.draft import Draft
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.library import Recipe
from trainwright.recipes.settle import settle
from trainwright.recipes.validate import faults, validate
from trainwright.recipes.validate.plan import Plan

if TYPE_CHECKING:
    from trainwright.recipes.pipeline import ResolvedRun


def validate_marked(plan: Plan) -> str | None:
    """Validate; returns why a known-invalid recipe is that, or null for any other and where words have mended it.

    What is wrong with such a recipe as it stands is told in a warning, and mended where nothing of it is left: neither
    what our rules see, nor what only its source refuses (`MENDED_BY`). Raises ConfigError for whatever else is wrong.
    """
    reason = plan.recipe.known_invalid
    if reason is None:
        validate(plan)
        return None
    left = validate(plan, tolerated=_own_faults(plan.recipe, plan.device))
    needed = MENDED_BY.get(reason, ())
    if not left and (not needed or any(plan.draft.changed(path) for path in needed)):
        return None
    plan.draft.warn(f"{plan.recipe.name} is known to be invalid, and no run of it starts: {reason}")
    return reason


def _own_faults(recipe: Recipe, device: DeviceKind) -> tuple[str, ...]:
    draft = Draft(recipe.build())
    apply_device(draft, device)
    settle(draft, recipe, recipe.world_size, device=device)
    return faults(Plan(build_config(draft.tree()), draft, recipe.world_size, device, recipe))


def require_valid(resolved: ResolvedRun) -> None:
    """Raise ConfigError for a run that resolves and must not start: see `validate_marked` and `carried.why_refused`."""
    if resolved.known_invalid is not None:
        raise ConfigError(f"{resolved.recipe} is known to be invalid as it stands: {resolved.known_invalid}")
    if (refusal := why_refused(resolved.config)) is not None:
        raise ConfigError(refusal)
