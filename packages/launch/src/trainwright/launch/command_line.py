"""The parser that takes the launch options out of a command line."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trainwright.launch.errors import LaunchError
from trainwright.launch.options import OPTIONS, Option
from trainwright.launch.values import shown


@dataclass(frozen=True)
class Given:
    """One option as it stands in the command line."""

    name: str
    value: str | bool


@dataclass(frozen=True)
class Typed:
    """A command line, taken apart."""

    given: Mapping[str, tuple[Given, ...]]
    """Destination to every time it was given; more than one only where the option repeats."""
    words: tuple[str, ...]
    """Everything else: run-recipe's words, untouched and in order."""


def split(words: Sequence[str]) -> Typed:
    """Take the launch options out of a command line.

    A long option may be spelt with `-` or `_` and is never abbreviated. Its value is the next word, or follows `=`; a
    value that begins with a dash needs the `=`, unless it is a negative number. Whatever is no launch option stays as
    it is, and so does everything from a bare `--` on.

    Raises `LaunchError` for a missing value, a switch with a value, or one option with two different values.
    """
    table = {name: option for option in OPTIONS for name in option.names}
    given: dict[str, list[Given]] = {}
    kept: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if word == "--":
            kept += words[position - 1 :]
            break
        name, equals, value = word.partition("=")
        option = table.get(_canonical(name))
        if option is None:
            kept.append(word)
        elif option.metavar is None:
            if equals:
                raise LaunchError(f"{name} takes no value, but was given {shown(value)}")
            _note(given, option, Given(name, option.switch_value))
        else:
            if not equals:
                value = next(iter(words[position : position + 1]), "")
                position += 1
            _note(given, option, Given(name, _checked(option, name, value, inline=bool(equals))))
    return Typed({dest: tuple(all_given) for dest, all_given in given.items()}, tuple(kept))


def wants_help(words: Iterable[str]) -> bool:
    """Whether the launcher's help is asked for, however wrong the other words are."""
    for word in words:
        if word == "--":
            return False
        if word == "--help":
            return True
    return False


def _canonical(name: str) -> str:
    """`--gpus_per_node` as the table spells it; a short name has no second spelling."""
    return "--" + name[2:].replace("_", "-") if name.startswith("--") else name


def _checked(option: Option, name: str, value: str, *, inline: bool) -> str:
    if not value:
        raise LaunchError(f"{name} needs a value: {name} {option.metavar}")
    if not inline and value.startswith("-") and not value[1:].isdecimal():
        raise LaunchError(
            f"{name} needs a value: {name} {option.metavar}; "
            f"one that begins with a dash is written {name}={shown(value)}"
        )
    return value


def _note(given: dict[str, list[Given]], option: Option, one: Given) -> None:
    earlier = given.setdefault(option.dest, [])
    if option.repeat or not earlier:
        earlier.append(one)
    elif earlier[0].value != one.value:
        raise LaunchError(f"{_said(earlier[0])} and {_said(one)} contradict each other: give one")


def _said(one: Given) -> str:
    return one.name if isinstance(one.value, bool) else f"{one.name} {shown(one.value)}"
