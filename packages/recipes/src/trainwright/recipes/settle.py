"""Everything that follows from a configuration's layers, in its order."""

from trainwright.recipes.derive import derive
from trainwright.recipes.device_layer import DeviceKind
from trainwright.recipes.draft import Draft
from trainwright.recipes.library import Recipe
from trainwright.recipes.overlap import settle_overlap
from trainwright.recipes.run_defaults import run_defaults


def settle(draft: Draft, recipe: Recipe, ranks: int, *, device: DeviceKind, deterministic: bool = False) -> None:
    """Fill in what `recipe` gets when it is run, what follows from other fields, and what from the number of ranks.

    Never over a value that the user typed. Raises ConfigError for a clash.
    """
    run_defaults(draft, recipe, device)
    derive(draft, device=device, deterministic=deterministic)
    settle_overlap(draft, ranks)
