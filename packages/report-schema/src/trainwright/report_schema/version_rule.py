"""What a change of the schema means for its version number."""

from typing import Any, Literal

type Change = Literal["none", "minor", "major"]

# Words for people: they may change in any release.
_ANNOTATIONS = ("title", "description", "$schema", "$id", "examples", "$comment")


def classify_change(old: dict[str, Any], new: dict[str, Any]) -> Change:
    """How the version must move from one JSON Schema of the report to another.

    ``none``: they describe the same documents. ``minor``: the new one only adds optional fields, at any depth.
    ``major``: anything else, such as a field that was removed, renamed, retyped, made required or optional, or got
    another default: a document then means something else to a reader that knows the other version.

    Args:
        old: the schema of the released version.
        new: the schema to be released.
    """
    plain_old, plain_new = (_plain(schema, schema.get("$defs", {})) for schema in (old, new))
    if plain_old == plain_new:
        return "none"
    return "minor" if _without_additions(plain_new, plain_old) == plain_old else "major"


def next_version(version: str, change: Change) -> str:
    """The version that follows ``MAJOR.MINOR`` after a change."""
    major, _, minor = version.partition(".")
    match change:
        case "none":
            return version
        case "minor":
            return f"{major}.{int(minor) + 1}"
        case "major":
            return f"{int(major) + 1}.0"


def _plain(schema: Any, definitions: dict[str, Any]) -> Any:
    """A schema with its references put in place, without annotations, and with lists that are sets in one order."""
    if isinstance(schema, list):
        return [_plain(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _plain(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    plain: dict[str, Any] = {}
    for key, part in schema.items():
        if key == "properties":
            plain[key] = {name: _plain(one, definitions) for name, one in part.items()}
        elif key == "required":
            plain[key] = sorted(part)
        elif key in ("anyOf", "enum"):
            plain[key] = sorted((_plain(one, definitions) for one in part), key=repr)
        elif key not in (*_ANNOTATIONS, "$defs"):
            plain[key] = _plain(part, definitions)
    return plain


def _without_additions(new: Any, old: Any) -> Any:
    """``new`` less the optional properties that ``old`` lacks."""
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return [_without_additions(*pair) for pair in zip(new, old, strict=True)]
    if not (isinstance(new, dict) and isinstance(old, dict)):
        return new
    pruned = {key: _without_additions(part, old.get(key)) for key, part in new.items()}
    if isinstance(new.get("properties"), dict) and isinstance(old.get("properties"), dict):
        required = new.get("required", ())
        pruned["properties"] = {
            name: part for name, part in pruned["properties"].items() if name in old["properties"] or name in required
        }
    return pruned
