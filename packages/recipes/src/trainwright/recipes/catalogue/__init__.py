"""The fields of Megatron Core's `TransformerConfig`, known without importing it.

`transformer_config.json` is written by `catalogue.generate` from the pinned megatron-core.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any, Literal, Union

_TYPES: dict[str, Any] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "null": None,
    "list[int]": list[int],
    "list[float]": list[float],
    "list[str]": list[str],
}


@cache
def _catalogue() -> dict[str, Any]:
    text = files(__name__).joinpath("transformer_config.json").read_text(encoding="utf-8")
    catalogue: dict[str, Any] = json.loads(text)
    return catalogue


def field_names() -> tuple[str, ...]:
    """Every field of `TransformerConfig` that a text can set."""
    return tuple(_catalogue()["fields"])


def not_settable() -> dict[str, str]:
    """Fields that hold something no text can give, and what that is."""
    held: dict[str, str] = _catalogue()["not_settable"]
    return held


def field_type(name: str) -> Any:
    """The annotation of a field; a literal where only some words are allowed. Raises KeyError for an unknown name."""
    entry = _catalogue()["fields"][name]
    members = [_TYPES[part] for part in entry.get("types", ())]
    # Where any text is allowed too, the words are only the named ones among others.
    if "choices" in entry and str not in members:
        members.append(Literal[tuple(entry["choices"])])
    # A union computed at run time has no other spelling.
    return Union[tuple(members)]  # noqa: UP007


def default(name: str) -> Any:
    """The field's default in megatron-core. Raises KeyError for an unknown name."""
    return _catalogue()["fields"][name]["default"]
