"""Suggestions for misspelt names."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, choices: Iterable[str], *, cutoff: float = 0.6) -> str:
    """`"; did you mean 'x'?"` for the choice nearest to `name`, or an empty string where none is near."""
    near = get_close_matches(name, list(choices), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


def nearest(name: str, choices: Iterable[str], count: int = 3) -> list[str]:
    """The `count` choices nearest to `name`, however far they are."""
    return get_close_matches(name, list(choices), n=count, cutoff=0.0)
