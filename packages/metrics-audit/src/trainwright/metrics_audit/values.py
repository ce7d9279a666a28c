"""Checks of single values. Each takes the object that holds the key and a name for messages, and returns the value.

They run some thirty times a record, so they are plain ifs on exact types: ``type(True) is int`` is false, which
keeps booleans out, and a comparison with NaN is false, which keeps it out too.
"""

import sys
from typing import Any

from trainwright.metrics_audit.refusal import InvalidRun

MAX_NUMBER = sys.float_info.max
MAX_WHOLE = 2**63 - 1
"""Counts beyond a signed 64-bit integer are taken for damage: no run has them, and most readers cannot hold them."""

_MISSING = object()


def whole(holder: dict[str, Any], key: str, name: str, minimum: int = 0) -> int:
    """Return an integer (not ``5.0``, not ``true``) from ``minimum`` to 2**63 - 1."""
    value = holder.get(key, _MISSING)
    if type(value) is int and minimum <= value <= MAX_WHOLE:
        return value
    raise _unfit(name, value, f"an integer of at least {minimum}")


def number(holder: dict[str, Any], key: str, name: str, minimum: float = 0.0) -> float:
    """Return a finite number of at least ``minimum``."""
    value = holder.get(key, _MISSING)
    if (type(value) is float or type(value) is int) and minimum <= value <= MAX_NUMBER:
        return value
    limit = "" if minimum < 0 else f" of at least {minimum:g}"
    raise _unfit(name, value, f"a finite number{limit}")


def any_number(holder: dict[str, Any], key: str, name: str) -> float:
    """Return a finite number of either sign."""
    return number(holder, key, name, -MAX_NUMBER)


def text(holder: dict[str, Any], key: str, name: str) -> str:
    """Return a string."""
    value = holder.get(key, _MISSING)
    if type(value) is str:
        return value
    raise _unfit(name, value, "a string")


def table(holder: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    """Return an object."""
    value = holder.get(key, _MISSING)
    if type(value) is dict:
        return value
    raise _unfit(name, value, "an object")


def number_or_null(holder: dict[str, Any], key: str, name: str, minimum: float = -MAX_NUMBER) -> float | None:
    """Return a finite number of at least ``minimum``, or None for null; the key itself must be there."""
    if holder.get(key, _MISSING) is None:
        return None
    return number(holder, key, name, minimum)


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


def _unfit(name: str, value: object, wanted: str) -> InvalidRun:
    if value is _MISSING:
        return InvalidRun(f"{name} is missing; it must be {wanted}")
    return InvalidRun(f"{name} is {shown(value)}; it must be {wanted}")
