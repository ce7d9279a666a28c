"""A configuration while its layers are laid on top of each other."""

from typing import Any

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.fields import FREE_SECTIONS

DEFAULT, RECIPE, PRESET, DEVICE, DERIVED, OVERRIDE = (
    "default",
    "recipe",
    "dataset preset",
    "device",
    "derived",
    "override",
)


class Draft:
    """Values by `section.field`, and which layer each came from."""

    def __init__(self, config: ConfigContainer) -> None:
        """Begin with a recipe: what it sets is `recipe`, the rest `default`."""
        self.values: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self.warnings: list[str] = []
        for section, fields in config.model_dump().items():
            chosen = fields if section in FREE_SECTIONS else getattr(config, section).model_fields_set
            for field, value in fields.items():
                self.put(f"{section}.{field}", value, RECIPE if field in chosen else DEFAULT)

    def __getitem__(self, path: str) -> Any:
        """The value at `path`; None for a field that no layer has set."""
        return self.values.get(path)

    def put(self, path: str, value: Any, source: str) -> None:
        """Set a value, whatever stood there."""
        self.values[path] = value
        self.sources[path] = source

    def remove(self, path: str) -> None:
        """Forget a value."""
        self.values.pop(path, None)
        self.sources.pop(path, None)

    def typed(self, path: str) -> bool:
        """Whether the user set this field."""
        source = self.sources.get(path, DEFAULT)
        return source == OVERRIDE or source.startswith("flag ")

    def derive(self, path: str, value: Any, why: str) -> None:
        """Set a value that follows from others. Raises ConfigError where the user has set another one."""
        if self.values.get(path) == value and path in self.values:
            return
        if self.typed(path):
            raise ConfigError(f"{path}={show(self.values[path])} does not go with {why}: it has to be {show(value)}")
        self.put(path, value, DERIVED)

    def warn(self, message: str) -> None:
        """Tell the user about a setting that is taken but will surprise."""
        self.warnings.append(message)

    def tree(self) -> dict[str, dict[str, Any]]:
        """Section -> field -> value, for the configuration classes."""
        tree: dict[str, dict[str, Any]] = {section: {} for section in FREE_SECTIONS}
        for path, value in self.values.items():
            section, _, field = path.partition(".")
            tree.setdefault(section, {})[field] = value
        return tree


def show(value: Any) -> str:
    """A value as a user would type it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
