"""Apply what the user typed to a draft: convenience flags, then trailing words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainwright.recipes import catalogue
from trainwright.recipes.coerce import coerce
from trainwright.recipes.config.training import PRECISION_PRESETS
from trainwright.recipes.draft import OVERRIDE, Draft
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.fields import FREE_SECTIONS, field_type, is_section, section_fields
from trainwright.recipes.flags import flag_of
from trainwright.recipes.grammar import Override, Value, parse_value, parse_word
from trainwright.recipes.nearest import did_you_mean


def apply_flags(draft: Draft, flags: Mapping[str, str]) -> None:
    """Set each field to the text typed behind its flag. Raises ConfigError."""
    for path, text in flags.items():
        flag = flag_of(path)
        if flag is None:
            raise ConfigError(f"{path}: no flag sets this field; type {path}=VALUE")
        word = f"{flag.name} {text}"
        annotation = field_type(path)
        # Text behind a flag is one argument of the shell's: it is taken as it is.
        value = Value(text, text, quoted=True) if annotation == str | None else parse_value(text, word)
        try:
            draft.put(path, coerce(path, annotation, value), f"flag {flag.name}")
        except ConfigError as error:
            raise ConfigError(f"{flag.name} {text}: {error}") from error


def apply_words(draft: Draft, words: Sequence[str]) -> None:
    """Apply trailing `KEY=VALUE` words in order. Raises ConfigError for a word that cannot be honoured."""
    for word in words:
        override = parse_word(word)
        if override.operation == "delete":
            _delete(draft, override)
            continue
        for path, value in _assignments(draft, override):
            draft.put(path, value, OVERRIDE)


def _assignments(draft: Draft, override: Override) -> Iterator[tuple[str, Any]]:
    """The leaves that a word sets."""
    path, value = override.path, override.value
    if value is None:
        raise ConfigError(f"{override.word!r} has no value")
    if path == "mixed_precision":
        yield from _precision(value, override.word)
    elif is_section(path):
        yield from _mapping(draft, path, value, override.word)
    else:
        yield path, coerce(path, field_type(path), value)


def _precision(value: Value, word: str) -> Iterator[tuple[str, Any]]:
    """`mixed_precision=PRESET` or a mapping of its fields."""
    if isinstance(value.parsed, dict):
        fields = _leaves("mixed_precision", value.parsed, word)
    elif value.parsed in PRECISION_PRESETS:
        fields = {f"mixed_precision.{name}": setting for name, setting in PRECISION_PRESETS[value.parsed].items()}
    else:
        raise ConfigError(
            f"{word!r}: mixed_precision takes {', '.join(PRECISION_PRESETS)}, or its fields"
            f"{did_you_mean(value.text, PRECISION_PRESETS)}"
        )
    yield from fields.items()


def _mapping(draft: Draft, section: str, value: Value, word: str) -> Iterator[tuple[str, Any]]:
    """A dictionary given to a section sets its fields; `{}` empties a dictionary of the user's."""
    if not isinstance(value.parsed, dict):
        raise ConfigError(
            f"{word!r}: {section} is a section; set its fields ({section}.FIELD=VALUE or {section}={{FIELD:VALUE}})"
        )
    if not value.parsed and section not in FREE_SECTIONS:
        raise ConfigError(f"{word!r} sets nothing: the fields of {section} cannot be removed")
    if not value.parsed:
        for path in [path for path in draft.values if path.startswith(f"{section}.")]:
            draft.remove(path)
    yield from _leaves(section, value.parsed, word).items()


def _leaves(section: str, fields: dict[str, Any], word: str) -> dict[str, Any]:
    leaves = {}
    for name, parsed in fields.items():
        path = f"{section}.{name}"
        if isinstance(parsed, bool | float) and section in FREE_SECTIONS:
            raise ConfigError(f"{word!r}: {path} takes text; write the value in quotes")
        text = parsed if isinstance(parsed, str) else str(parsed)
        leaves[path] = coerce(path, field_type(path), Value(text, parsed, quoted=isinstance(parsed, str)))
    return leaves


def _delete(draft: Draft, override: Override) -> None:
    """`~key` takes a key out of a dictionary; a field of a section stays."""
    path = override.path
    section, _, field = path.partition(".")
    if override.value is not None:
        raise ConfigError(f"{override.word!r}: a deletion takes no value; type ~{path}")
    if section in FREE_SECTIONS:
        if path != section and path not in draft.values:
            known = [name for name in draft.values if name.startswith(f"{section}.")]
            raise ConfigError(f"{override.word!r}: there is no {path} to delete{did_you_mean(path, known)}")
        doomed = [name for name in draft.values if name == path or name.startswith(f"{path}.")]
        for name in doomed:
            draft.remove(name)
        return
    field_type(path)
    if section == "model" and field not in section_fields()["model"]:
        if path not in draft.values:
            raise ConfigError(f"{override.word!r}: {path} is not set; there is nothing to delete")
        draft.put(path, catalogue.default(field), OVERRIDE)
        return
    raise ConfigError(
        f"{override.word!r}: a field of {section} cannot be removed; set it to another value (or to null)"
    )
