"""A configuration as YAML, and back."""

import re
from functools import cache
from typing import Any

from trainwright.recipes.build import build_config
from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.fields import field_type, is_section, leaves, may_be_null


def to_yaml(config: ConfigContainer) -> str:
    """Every field, section by section, in the order of the classes; `from_yaml` reads it back to an equal object."""
    import yaml

    return yaml.dump(config.model_dump(), Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=120)


def from_yaml(text: str) -> ConfigContainer:
    """Read what `to_yaml` wrote, or a file that a person edited. Raises ConfigError."""
    import yaml

    try:
        tree = yaml.load(text, Loader=_loader())
    except yaml.YAMLError as error:
        raise ConfigError(f"the configuration is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(tree, dict) or not all(map(_may_hold, tree, tree.values())):
        raise ConfigError("the configuration is not a mapping of sections to fields")
    for path, value in leaves(tree):
        if not (is_section(path) and value is None and may_be_null(path)):
            field_type(path)
    return build_config(tree)


def _may_hold(section: str, value: Any) -> bool:
    return isinstance(value, dict) or (value is None and is_section(section) and may_be_null(section))


# YAML 1.2's core schema. PyYAML follows YAML 1.1, where `1e-5` is text, `010` eight, `12:30` a number of minutes, `on`
# true and a date a date.
_SCALARS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
)


def _add_scalars(yaml_class: Any) -> None:
    for tag, pattern, first in _SCALARS:
        yaml_class.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})$"), first)


@cache
def _dumper() -> Any:
    """A safe dumper that quotes text which a reader of either YAML would take for something else."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    def text(dumper: Any, value: str) -> Any:
        # PyYAML escapes line breaks of any kind in double quotes only; elsewhere some come back as blanks.
        style = None if value.isprintable() else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    _add_scalars(Dumper)
    Dumper.add_representer(str, text)
    return Dumper


@cache
def _loader() -> Any:
    """A safe loader that knows the scalars of YAML 1.2 and no others."""
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own shape

    _add_scalars(Loader)
    Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
    Loader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(node.value))
    return Loader
