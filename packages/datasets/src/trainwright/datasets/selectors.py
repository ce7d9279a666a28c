"""What `--dataset` can name, and where its data comes from."""

from __future__ import annotations

from dataclasses import dataclass

from trainwright.datasets.errors import DataError


@dataclass(frozen=True)
class Selector:
    """One name."""

    name: str
    kind: str
    modes: tuple[str, ...]
    reads: str
    hub_id: str | None = None
    licence: str | None = None
    """A note; the dataset's card decides."""


def selectors() -> list[Selector]:
    """All names that this version serves."""
    from trainwright.recipes.presets import PRESETS

    return [
        Selector(name, preset.kind, preset.modes, preset.reads, preset.hub_id, preset.licence)
        for name, preset in PRESETS.items()
    ]


def find_selector(name: str) -> Selector:
    """The selector of that name.

    Raises:
        DataError: it is unknown, or not available yet.
    """
    from trainwright.recipes.nearest import did_you_mean
    from trainwright.recipes.planned import DATASETS_TO_COME

    served = {selector.name: selector for selector in selectors()}
    if name in served:
        return served[name]
    if name in DATASETS_TO_COME:
        raise DataError(f"{name} is not available yet; available: {', '.join(served)}")
    raise DataError(f"{name}: no such dataset; available: {', '.join(served)}{did_you_mean(name, served)}")
