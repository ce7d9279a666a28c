"""Checks of single values. Each takes the object that holds the key and returns the value, or refuses.

``where`` goes before the key in messages. The checks run some thirty times a record, so they are plain ifs on exact
types: ``type(True) is int`` is false, which keeps booleans out, and a comparison with NaN is false, which keeps it
out too.
"""

import sys
from typing import Any

from trainwright.metrics_audit.refusal import InvalidRun

MAX_NUMBER = sys.float_info.max
MAX_WHOLE = 2**63 - 1
"""Counts beyond a signed 64-bit integer are taken for damage: no run has them, and most readers cannot hold them."""


def whole(holder: dict[str, Any], key: str, where: str = "", minimum: int = 0) -> int:
    """Return an integer (not ``5.0``, not ``true``) from ``minimum`` to 2**63 - 1."""
    value = holder.get(key)
    if type(value) is int and minimum <= value <= MAX_WHOLE:
        return value
    raise misfit(holder, key, where, f"an integer of at least {minimum}")


def number(holder: dict[str, Any], key: str, where: str = "", minimum: float = 0.0) -> float:
    """Return a finite number of at least ``minimum``."""
    value = holder.get(key)
    if (type(value) is float or type(value) is int) and minimum <= value <= MAX_NUMBER:
        return value
    limit = "" if minimum < 0 else f" of at least {minimum:g}"
    raise misfit(holder, key, where, f"a finite number{limit}")


def number_or_null(holder: dict[str, Any], key: str, where: str = "") -> float | None:
    """Return a finite number of either sign, or None for null; the key itself must be there."""
    if holder.get(key) is None and key in holder:
        return None
    return number(holder, key, where, -MAX_NUMBER)


def text(holder: dict[str, Any], key: str, where: str = "") -> str:
    """Return a string."""
    value = holder.get(key)
    if type(value) is str:
        return value
    raise misfit(holder, key, where, "a string")


def table(holder: dict[str, Any], key: str, where: str = "") -> dict[str, Any]:
    """Return an object."""
    value = holder.get(key)
    if type(value) is dict:
        return value
    raise misfit(holder, key, where, "an object")


def misfit(holder: dict[str, Any], key: str, where: str, wanted: str) -> InvalidRun:
    """Return the refusal that says what stands under ``key`` and what should."""
    found = shown(holder[key]) if key in holder else "missing"
    name = f"{where}{key}"
    return InvalidRun(f"{name if name.isprintable() else ascii(name)} is {found}; it must be {wanted}")


def shown(value: object) -> str:
    """A value as a message shows it: JSON's words, ASCII, and short."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float) and not abs(value) <= MAX_NUMBER:
        return "too large for a number"
    word = ascii(value)
    return word if len(word) <= 60 else f"{word[:57]}..."
