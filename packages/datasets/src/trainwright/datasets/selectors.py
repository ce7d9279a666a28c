"""What `--dataset` can name, and where its data comes from."""

from __future__ import annotations

from dataclasses import dataclass

from trainwright.datasets.errors import DataError

_READS = {
    "mock": "generated documents; no file is read",
    "megatron-indexed": "local .bin/.idx pairs, named by dataset.data_path",
}


@dataclass(frozen=True)
class Selector:
    """One name."""

    name: str
    kind: str
    modes: tuple[str, ...]
    reads: str


def selectors() -> list[Selector]:
    """All names that this version serves."""
    from trainwright.recipes.presets import MODES

    return [Selector(name, "source selector", modes, _READS[name]) for name, modes in MODES.items()]


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
