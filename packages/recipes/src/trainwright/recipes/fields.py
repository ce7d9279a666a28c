"""Which fields a configuration has, and of which type."""

import typing
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any

from trainwright.recipes import catalogue
from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.section import Section
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.nearest import did_you_mean
from trainwright.recipes.planned import FIELDS_TO_COME

FREE_SECTIONS: dict[str, Any] = {"env_vars": str, "dataset.dataset_kwargs": Any}
"""Sections that are dictionaries with keys of the user's, and the type of their values."""


@cache
def section_classes() -> dict[str, type[Section]]:
    """Path of every section, those inside another section too -> its class."""
    return dict(_sections_of(ConfigContainer, ""))


def _sections_of(owner: type[Section], path: str) -> Iterator[tuple[str, type[Section]]]:
    for name, field in owner.model_fields.items():
        here = f"{path}.{name}" if path else name
        for member in (field.annotation, *typing.get_args(field.annotation)):
            if isinstance(member, type) and issubclass(member, Section):
                yield here, member
                yield from _sections_of(member, here)


@cache
def section_fields() -> dict[str, dict[str, Any]]:
    """Path of a section -> field -> annotation, as the configuration tree declares them."""
    return {
        path: {key: field.annotation for key, field in section.model_fields.items()}
        for path, section in section_classes().items()
    }


def is_section(path: str) -> bool:
    """Whether `path` names a whole section, of the tree or inside another section."""
    return path in section_classes() or path in FREE_SECTIONS


def may_be_null(path: str) -> bool:
    """Whether the section at `path` can be left out of the configuration."""
    owner, _, name = path.rpartition(".")
    fields = (section_classes()[owner] if owner else ConfigContainer).model_fields
    annotation = fields[name].annotation
    return type(None) in typing.get_args(annotation)


@lru_cache(maxsize=4096)
def split_path(path: str) -> tuple[str, str]:
    """The innermost section that `path` goes through, and what is left of it: empty for a section itself."""
    section, _, field = path.partition(".")
    while field:
        head, _, rest = field.partition(".")
        if not is_section(f"{section}.{head}"):
            break
        section, field = f"{section}.{head}", rest
    return section, field


def leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Path -> value for every field of a dumped configuration; a section that is null is a leaf, an empty one none."""
    for name, value in tree.items():
        here = f"{path}.{name}" if path else name
        if isinstance(value, Mapping) and is_section(here):
            yield from leaves(value, here)
        else:
            yield here, value


def field_type(path: str) -> Any:
    """The annotation of `section.field`.

    Raises ConfigError for a name that is unknown (with the nearest one), not available yet, or not settable.
    """
    section, field = split_path(path)
    if section in FREE_SECTIONS and path != section:
        return FREE_SECTIONS[section]
    if not is_section(section):
        raise ConfigError(f"{path}: there is no section {section!r}{_suggest_path(section, field)}")
    known = section_fields().get(section, {})
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
    return did_you_mean(section, [*ConfigContainer.model_fields])
