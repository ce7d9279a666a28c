"""Which fields a configuration has, and of which type."""

from functools import cache
from typing import Any

from trainwright.recipes import catalogue
from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.nearest import did_you_mean
from trainwright.recipes.planned import FIELDS_TO_COME, SECTIONS_TO_COME

FREE_SECTIONS = ("env_vars",)
"""Sections that are dictionaries of text with keys of the user's."""


@cache
def section_fields() -> dict[str, dict[str, Any]]:
    """Section -> field -> annotation, as the configuration tree declares them."""
    return {
        name: {key: field.annotation for key, field in section.annotation.model_fields.items()}
        for name, section in ConfigContainer.model_fields.items()
        if name not in FREE_SECTIONS and section.annotation is not None
    }


def is_section(path: str) -> bool:
    """Whether `path` names a whole section."""
    return path in section_fields() or path in FREE_SECTIONS


def field_type(path: str) -> Any:
    """The annotation of `section.field`.

    Raises ConfigError for a name that is unknown (with the nearest one), not available yet, or not settable.
    """
    section, _, field = path.partition(".")
    if section in FREE_SECTIONS and path != section:
        return str
    if section in SECTIONS_TO_COME:
        raise ConfigError(f"{path}: the section {section} is not available yet")
    if section not in section_fields():
        raise ConfigError(f"{path}: there is no section {section!r}{_suggest_path(section, field)}")
    known = section_fields()[section]
    if field in known:
        return known[field]
    if section == "model" and field in catalogue.field_names():
        return catalogue.field_type(field)
    if section == "model" and field in catalogue.not_settable():
        raise ConfigError(f"{path} holds {catalogue.not_settable()[field]} and cannot be set")
    raise ConfigError(_no_such_field(path, section, field))


def _no_such_field(path: str, section: str, field: str) -> str:
    first = field.partition(".")[0]
    if f"{section}.{first}" in FIELDS_TO_COME:
        return f"{section}.{first} is not available yet"
    if not field:
        return f"{path}: {section} is a section; set its fields ({section}.FIELD=VALUE or {section}={{FIELD:VALUE}})"
    if first != field and first in section_fields()[section]:
        return f"{path}: {section}.{first} has no fields of its own"
    return f"{path}: {section} has no field {field!r}{_suggest_field(section, field)}"


def _suggest_field(section: str, field: str) -> str:
    elsewhere = [name for name, fields in section_fields().items() if field in fields]
    if elsewhere:
        return f"; did you mean '{elsewhere[0]}.{field}'?"
    names = [*section_fields()[section], *(catalogue.field_names() if section == "model" else ())]
    return did_you_mean(field, names)


def _suggest_path(section: str, field: str) -> str:
    if not field:
        owners = [name for name, fields in section_fields().items() if section in fields]
        if owners:
            return f"; did you mean '{owners[0]}.{section}'?"
    return did_you_mean(section, [*section_fields(), *FREE_SECTIONS])
