"""What a run is: configuration, recipes, selection, overrides.

Names are loaded when first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainwright.recipes.comparison import shaping_differences
    from trainwright.recipes.config import ConfigContainer
    from trainwright.recipes.errors import ConfigError
    from trainwright.recipes.flags import FLAGS, Flag
    from trainwright.recipes.pipeline import ResolvedRun, resolve
    from trainwright.recipes.selection import Selection
    from trainwright.recipes.sizes import Estimate, estimate
    from trainwright.recipes.yaml_text import from_yaml, to_yaml

__all__ = [
    "FLAGS",
    "ConfigContainer",
    "ConfigError",
    "Estimate",
    "Flag",
    "ResolvedRun",
    "Selection",
    "estimate",
    "from_yaml",
    "resolve",
    "shaping_differences",
    "to_yaml",
]

_HOME = {
    "ConfigContainer": "config",
    "ConfigError": "errors",
    "Estimate": "sizes",
    "FLAGS": "flags",
    "Flag": "flags",
    "ResolvedRun": "pipeline",
    "Selection": "selection",
    "estimate": "sizes",
    "from_yaml": "yaml_text",
    "resolve": "pipeline",
    "shaping_differences": "comparison",
    "to_yaml": "yaml_text",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
