"""A configuration while its layers are laid on top of each other."""

from typing import Any

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.fields import FREE_SECTIONS, leaves, section_classes, split_path

DEFAULT, RECIPE, PRESET, DEVICE, DERIVED, SCALED, OVERRIDE = (
    "default",
    "recipe",
    "dataset preset",
    "device",
    "derived",
    "weak scaling",
    "override",
)


class Draft:
    """Values by `section.field`, and which layer each came from. A section that is null is one such value."""

    def __init__(self, config: ConfigContainer) -> None:
        """Begin with a recipe: what it sets is `recipe`, the rest `default`."""
        self.values: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self.warnings: list[str] = []
        chosen = {path for path, _ in leaves(config.model_dump(exclude_unset=True))}
        for path, value in leaves(config.model_dump()):
            self.put(path, value, RECIPE if path in chosen else DEFAULT)
        self.recipe = dict(self.values)

    def __getitem__(self, path: str) -> Any:
        """The value at `path`; None for a field that no layer has set."""
        return self.values.get(path)

    def put(self, path: str, value: Any, source: str) -> None:
        """Set a value, whatever stood there. A section itself is set to null; a dictionary of the user's is emptied."""
        section, _ = split_path(path)
        if path == section:
            self.empty(path)
            if path in FREE_SECTIONS:
                return
        elif section in self.values:
            self._open(section)
        self.values[path] = value
        self.sources[path] = source

    def remove(self, path: str) -> None:
        """Forget a value."""
        self.values.pop(path, None)
        self.sources.pop(path, None)

    def empty(self, section: str) -> None:
        """Forget every value of a section."""
        for path in [path for path in self.values if path.startswith(f"{section}.")]:
            self.remove(path)

    def _open(self, section: str) -> None:
        """Turn a section that was null into one that holds its defaults."""
        self.remove(section)
        for name, field in section_classes()[section].model_fields.items():
            if not field.is_required():
                path = f"{section}.{name}"
                self.values[path] = field.get_default(call_default_factory=True)
                self.sources[path] = DEFAULT

    def typed(self, path: str) -> bool:
        """Whether the user set this field."""
        source = self.sources.get(path, DEFAULT)
        return source == OVERRIDE or source.startswith("flag ")

    def changed(self, path: str) -> bool:
        """Whether the user set this field to another value than the recipe's."""
        return self.typed(path) and self.values.get(path) != self.recipe.get(path)

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

    def tree(self) -> dict[str, Any]:
        """Section -> field -> value, sections inside sections too, for the configuration classes."""
        tree: dict[str, Any] = {}
        for section in FREE_SECTIONS:
            _at(tree, section)
        for path, value in self.values.items():
            section, field = split_path(path)
            if path == section:
                section, _, field = path.rpartition(".")
            _at(tree, section)[field] = value
        return tree


def _at(tree: dict[str, Any], section: str) -> dict[str, Any]:
    """The dictionary of a section, made where it is not there yet; of no section the tree itself."""
    for name in filter(None, section.split(".")):
        tree = tree.setdefault(name, {})
    return tree


def show(value: Any) -> str:
    """A value as a user would type it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
