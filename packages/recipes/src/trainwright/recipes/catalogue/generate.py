"""Write `transformer_config.json`: the fields of the installed megatron-core's `TransformerConfig`.

Run by `nox -s catalogue` whenever the pin of megatron-core moves: `python -m trainwright.recipes.catalogue.generate`.
This is the one module here that needs megatron-core and torch, which is why nothing imports it.
"""

import dataclasses
import enum
import importlib
import json
import sys
import types
import typing
from importlib.metadata import version
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("transformer_config.json")
SCALARS = {bool: "bool", int: "int", float: "float", str: "str", type(None): "null"}


class NotSettable(Exception):
    """The field holds something that no text can give; the message says what."""


def describe(annotation: Any) -> dict[str, list[str]]:
    """`{"types": [...], "choices": [...]}` of an annotation.

    Types are `bool int float str null list[...] list`; choices are the words that a literal or an enumeration allows.
    Raises NotSettable for functions, torch types and other objects.
    """
    if annotation in SCALARS:
        return {"types": [SCALARS[annotation]], "choices": []}
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return {"types": [], "choices": [member.name for member in annotation]}
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        if all(isinstance(choice, str) for choice in arguments):
            return {"types": [], "choices": list(arguments)}
        return {"types": sorted({SCALARS[type(choice)] for choice in arguments}), "choices": []}
    if origin in (typing.Union, types.UnionType):
        return _union(arguments)
    if origin in (list, tuple) or annotation is list:
        inner = _union(arguments)
        return {"types": [f"list[{name}]" for name in inner["types"]] or ["list[str]"], "choices": []}
    raise NotSettable(_what(annotation))


def _union(members: tuple[Any, ...]) -> dict[str, list[str]]:
    parts: list[dict[str, list[str]]] = []
    refusal: NotSettable | None = None
    for member in members:
        try:
            parts.append(describe(member))
        except NotSettable as error:
            refusal = error
    if refusal is not None and not any(part["types"] != ["null"] for part in parts):
        raise refusal
    return {
        "types": list(dict.fromkeys(name for part in parts for name in part["types"])),
        "choices": list(dict.fromkeys(name for part in parts for name in part["choices"])),
    }


def _what(annotation: Any) -> str:
    text = str(annotation)
    if "Callable" in text or "function" in text:
        return "a function"
    return "a torch type" if "dtype" in text else "an object"


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default is not dataclasses.MISSING:
        value = field.default
    elif field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    else:
        raise TypeError(f"{field.name} has no default: it belongs into the typed part of the model section")
    return value.name if isinstance(value, enum.Enum) else value


def catalogue() -> dict[str, Any]:
    """The catalogue of the installed class."""
    # importlib and not an import statement: the import contracts hold this package free of megatron and torch.
    module = importlib.import_module("megatron.core.transformer.transformer_config")
    config_class = module.TransformerConfig
    hints = typing.get_type_hints(config_class)
    fields: dict[str, Any] = {}
    not_settable: dict[str, str] = {}
    for field in dataclasses.fields(config_class):
        try:
            described = describe(hints[field.name])
        except NotSettable as error:
            not_settable[field.name] = str(error)
            continue
        if field.name.startswith("_"):
            not_settable[field.name] = "an object"
            continue
        default = _default(field)
        # Some defaults contradict their annotation (`x: str = None`); the default is allowed in any case.
        if default is None and "null" not in described["types"]:
            described["types"].append("null")
        fields[field.name] = {key: value for key, value in described.items() if value} | {"default": default}
    return {"megatron_core": version("megatron-core"), "fields": fields, "not_settable": not_settable}


def text() -> str:
    """The file's content: one field a line, so that a new pin shows as a readable diff."""
    found = catalogue()
    sections = []
    for key in ("fields", "not_settable"):
        lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(entry)}" for name, entry in found[key].items())
        sections.append(f'  "{key}": {{\n{lines}\n  }}')
    return f'{{\n  "megatron_core": {json.dumps(found["megatron_core"])},\n' + ",\n".join(sections) + "\n}\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
    sys.stdout.write(f"{TARGET}\n")
