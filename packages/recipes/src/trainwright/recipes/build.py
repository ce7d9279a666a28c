"""From a draft to the typed configuration, with errors that a user can read."""

from typing import Any

from pydantic import ValidationError

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.draft import show
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.fields import is_section

_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "above"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "below"),
}


def build_config(tree: dict[str, Any]) -> ConfigContainer:
    """The configuration of a tree `section -> field -> value`. Raises ConfigError naming the first bad field."""
    try:
        return ConfigContainer.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(_message(error)) from error


def _message(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    path = _path(first["loc"])
    if first["type"] == "missing":
        return f"{path} is missing"
    if first["type"] == "extra_forbidden":
        return f"{path} is not a field"
    value = f"{path}={show(first['input'])}"
    if first["type"] in _BOUNDS:
        key, word = _BOUNDS[first["type"]]
        return f"{value}: it has to be {word} {first['ctx'][key]}"
    return f"{value}: {first['msg'][:1].lower()}{first['msg'][1:]}"


def _path(place: tuple[int | str, ...]) -> str:
    """The field at `place`, without what pydantic says of alternatives and items inside it."""
    path = str(place[0])
    for part in place[1:]:
        if not is_section(path):
            break
        path = f"{path}.{part}"
    return path
