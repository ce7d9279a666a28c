"""A configuration as YAML, and back."""

import re
from functools import cache
from typing import Any

from trainwright.recipes.build import build_config
from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.errors import ConfigError


def to_yaml(config: ConfigContainer) -> str:
    """Every field, section by section, in the order of the classes; `from_yaml` reads it back to an equal object."""
    import yaml

    return yaml.safe_dump(config.model_dump(), sort_keys=False, allow_unicode=True, default_flow_style=False, width=120)


def from_yaml(text: str) -> ConfigContainer:
    """Read what `to_yaml` wrote, or a file that a person edited. Raises ConfigError."""
    import yaml

    try:
        tree = yaml.load(text, Loader=_loader())
    except yaml.YAMLError as error:
        raise ConfigError(f"the configuration is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(tree, dict) or not all(isinstance(section, dict) for section in tree.values()):
        raise ConfigError("the configuration is not a mapping of sections to fields")
    return build_config(tree)


@cache
def _loader() -> Any:
    """A safe loader that reads numbers and words as YAML 1.2 does.

    PyYAML follows YAML 1.1: `1e-5` would be text, `010` eight, `12:30` a number of minutes, `on` true, a date a date.
    """
    import yaml

    class CoreSchemaLoader(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own shape

    for tag, pattern, first in (
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
        ("int", r"[-+]?[0-9]+", list("-+0123456789")),
        ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ):
        CoreSchemaLoader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})$"), first)
    CoreSchemaLoader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
    CoreSchemaLoader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(node.value))
    return CoreSchemaLoader
