"""Apply what the user typed to a draft: convenience flags, then trailing words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainwright.recipes import catalogue
from trainwright.recipes.coerce import coerce
from trainwright.recipes.config.training import PRECISION_PRESETS
from trainwright.recipes.draft import OVERRIDE, Draft
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.fields import FREE_SECTIONS, field_type, is_section, may_be_null, section_fields, split_path
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
        for path, value in _assignments(override):
            draft.put(path, value, OVERRIDE)


def _assignments(override: Override) -> Iterator[tuple[str, Any]]:
    """The leaves that a word sets."""
    path, value = override.path, override.value
    if value is None:
        raise ConfigError(f"{override.word!r} has no value")
    if path == "mixed_precision":
        yield from _precision(value, override.word)
    else:
        yield from _values(path, value, override.word)


def _values(path: str, value: Value, word: str) -> Iterator[tuple[str, Any]]:
    """What `value` sets at `path`: a field, or the fields that a dictionary names in a section."""
    if not is_section(path):
        yield path, coerce(path, field_type(path), value)
        return
    empties = value.parsed == {} and path in FREE_SECTIONS
    if empties or (value.parsed is None and not value.sweep and may_be_null(path)):
        yield path, value.parsed
        return
    if not isinstance(value.parsed, dict):
        raise ConfigError(
            f"{word!r}: {path} is a section; set its fields ({path}.FIELD=VALUE or {path}={{FIELD:VALUE}})"
        )
    if not value.parsed:
        raise ConfigError(f"{word!r} sets nothing: the fields of {path} cannot be removed")
    for name, parsed in value.parsed.items():
        here = f"{path}.{name}"
        if isinstance(parsed, bool | float) and FREE_SECTIONS.get(path) is str:
            raise ConfigError(f"{word!r}: {here} takes text; write the value in quotes")
        yield from _values(here, Value(str(parsed), parsed, quoted=isinstance(parsed, str)), word)


def _precision(value: Value, word: str) -> Iterator[tuple[str, Any]]:
    """`mixed_precision=PRESET` or a mapping of its fields."""
    if isinstance(value.parsed, dict):
        fields = dict(_values("mixed_precision", value, word))
    elif value.parsed in PRECISION_PRESETS:
        fields = {f"mixed_precision.{name}": setting for name, setting in PRECISION_PRESETS[value.parsed].items()}
    else:
        raise ConfigError(
            f"{word!r}: mixed_precision takes {', '.join(PRECISION_PRESETS)}, or its fields"
            f"{did_you_mean(value.text, PRECISION_PRESETS)}"
        )
    yield from fields.items()


def _delete(draft: Draft, override: Override) -> None:
    """`~key` takes a key out of a dictionary; a field of a section stays."""
    path = override.path
    section, field = split_path(path)
    if override.value is not None:
        raise ConfigError(f"{override.word!r}: a deletion takes no value; type ~{path}")
    if section in FREE_SECTIONS:
        if path != section and path not in draft.values:
            known = [name for name in draft.values if name.startswith(f"{section}.")]
            raise ConfigError(f"{override.word!r}: there is no {path} to delete{did_you_mean(path, known)}")
        draft.remove(path)
        draft.empty(path)
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
