"""Give a typed value the type of its field, or say why it has none."""

import types
import typing
from typing import Any, Literal

from trainwright.recipes.errors import ConfigError
from trainwright.recipes.grammar import Value
from trainwright.recipes.nearest import did_you_mean


def coerce(path: str, annotation: Any, value: Value) -> Any:
    """`value` as the field at `path` holds it.

    Numbers are not read from quoted text, booleans not from numbers; text takes anything that is not a list, a
    dictionary or null. Raises ConfigError.
    """
    members = _members(annotation)
    if annotation is Any and not value.sweep:
        return value.parsed
    if value.parsed is None and not value.sweep and not value.quoted:
        if type(None) in members:
            return None
        raise ConfigError(f"{path} cannot be null: it takes {_wanted(members)}")
    if str in members and not any(_is_list(member) for member in members):
        return _as_text(path, members, value)
    if value.sweep:
        raise ConfigError(
            f"{path}={value.text}: several values were given where one is needed; "
            f"a list is typed as {path}=[a,b], text with a comma in quotes: '{path}=\"a,b\"'"
        )
    return _convert(path, members, value.parsed, value.text)


def _as_text(path: str, members: tuple[Any, ...], value: Value) -> Any:
    if isinstance(value.parsed, (list, dict)):
        raise ConfigError(f"{path}={value.text}: it takes {_wanted(members)}; quote the value to keep the brackets")
    # Hydra has removed escapes and quotes from text; a number, a boolean or a comma list stays as typed.
    text = value.parsed if isinstance(value.parsed, str) else value.text
    if type(None) in members and not text.strip():
        raise ConfigError(f"{path} is empty; give a value, or null for none")
    return text


def _members(annotation: Any) -> tuple[Any, ...]:
    """The alternatives of a union; one alone for any other annotation."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return tuple(member for part in typing.get_args(annotation) for member in _members(part))
    # Field constraints travel beside the type.
    if typing.get_origin(annotation) is typing.Annotated:
        return _members(typing.get_args(annotation)[0])
    return (type(None) if annotation is None else annotation,)


def _is_list(member: Any) -> bool:
    return typing.get_origin(member) is list or member is list


def _convert(path: str, members: tuple[Any, ...], parsed: Any, text: str) -> Any:
    """The first alternative that takes the value as it is."""
    for member in members:
        if isinstance(parsed, list) and _is_list(member):
            return _as_list(path, member, parsed, text)
        if typing.get_origin(member) is Literal and parsed in typing.get_args(member):
            return parsed
        if isinstance(member, type) and type(parsed) is member:
            return parsed
    # A whole number is a fine value for a floating-point field.
    if type(parsed) is int and float in members:
        return float(parsed)
    raise ConfigError(f"{path}={text}: it takes {_wanted(members)}{_advice(members, parsed)}")


def _as_list(path: str, member: Any, parsed: list[Any], text: str) -> list[Any]:
    inner = _members(typing.get_args(member)[0]) if typing.get_args(member) else (str, int, float)
    try:
        return [_convert(path, inner, item, str(item)) for item in parsed]
    except ConfigError as error:
        raise ConfigError(f"{path}={text}: it takes {_wanted((member,))}{_advice(inner, None)}") from error


def _advice(members: tuple[Any, ...], parsed: Any) -> str:
    words = tuple(word for member in members for word in _words(member))
    if isinstance(parsed, str):
        if bool in members:
            return " (no quotes, no yes/no, no 0/1)"
        return did_you_mean(parsed, words)
    if isinstance(parsed, float) and int in members and parsed.is_integer():
        return f" (write {int(parsed)})"
    if any(_is_list(member) for member in members):
        return f"; a list of one is [{parsed}]"
    if str in members and parsed is None:
        return "; a number that is meant as text stands in quotes"
    return ""


def _words(member: Any) -> tuple[str, ...]:
    return typing.get_args(member) if typing.get_origin(member) is Literal else ()


_NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    type(None): "null",
    dict: "a dictionary",
}


def _wanted(members: tuple[Any, ...]) -> str:
    return " or ".join(dict.fromkeys(_name(member) for member in members))


def _name(member: Any) -> str:
    if words := _words(member):
        return ", ".join(words) if len(words) > 2 else " or ".join(words)
    if _is_list(member):
        arguments = typing.get_args(member)
        return f"a list [a,b] of {_wanted(_members(arguments[0]))}" if arguments else "a list [a,b]"
    return _NAMES.get(member, str(member))
