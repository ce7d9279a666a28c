"""Weak scaling: at another number of ranks than it was written for, a benchmark keeps its samples per GPU."""

import math

from trainwright.recipes.draft import SCALED, Draft
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.library import Recipe

BATCH = "train.global_batch_size"


def scaled_batch(batch: int, *, canonical: int, ranks: int) -> int:
    """The global batch of `ranks` that gives each as many sequences as `batch` gives each of `canonical` ranks.

    Exact: batch x ranks / canonical, also where the user has changed how ranks share a copy of the model. Raises
    ConfigError where that is no whole number.
    """
    if batch * ranks % canonical:
        unit = canonical // math.gcd(batch, canonical)
        raise ConfigError(
            f"world size {ranks}: {BATCH}={batch} of {canonical} ranks would become {batch * ranks / canonical:g} to "
            f"keep samples per GPU; use a multiple of {unit} ranks, or choose a batch with -gb N ({BATCH}=N)"
        )
    return batch * ranks // canonical


def scale(draft: Draft, recipe: Recipe, ranks: int) -> tuple[str, ...]:
    """Scale a benchmark's global batch to `ranks`, and say so; a batch that was typed stays. Sizes are derived already.

    A grid that these ranks do not fill is left to validation, which says what does not fit. Raises ConfigError as
    `scaled_batch` does.
    """
    if not recipe.benchmark or ranks == recipe.world_size or not _grid_is_filled(draft, ranks):
        return ()
    sizes = f"{ranks} ranks instead of {recipe.world_size}"
    batch = draft[BATCH]
    if draft.typed(BATCH):
        return (f"weak scaling: off for {sizes}, because {BATCH}={batch} was typed",)
    scaled = scaled_batch(batch, canonical=recipe.world_size, ranks=ranks)
    draft.put(BATCH, scaled, SCALED)
    return (f"weak scaling: {sizes} keep {batch / recipe.world_size:g} sequences per GPU: {BATCH} {batch} -> {scaled}",)


def _grid_is_filled(draft: Draft, ranks: int) -> bool:
    """Whether whole copies of the model, and whole groups of experts, fill the ranks."""
    tensor, stages, context, experts, expert_tensor = (
        draft[f"model.{name}_parallel_size"] or 1
        for name in ("tensor_model", "pipeline_model", "context", "expert_model", "expert_tensor")
    )
    return ranks % (tensor * stages * context) == 0 and ranks // stages % (experts * expert_tensor) == 0
