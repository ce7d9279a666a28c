"""Slurm's short form of host names."""

import re
from collections.abc import Iterable, Iterator

_BRACKETS = re.compile(r"(?P<before>[^\[\]]*)\[(?P<ranges>[^\[\]]+)\](?P<after>.*)")
_ITEM = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")


def expand_hosts(names: Iterable[str]) -> list[str]:
    """``["n[01-02,5]", "login"]`` as ``["n01", "n02", "n5", "login"]``.

    A name that is not in this form, such as CloudAI's ``PARTITION:GROUP:COUNT``, stays as it is.
    """
    return [host for name in names for item in _ITEM.findall(name) for host in _expand(item.strip())]


def _expand(item: str) -> Iterator[str]:
    match = _BRACKETS.fullmatch(item)
    if match is None:
        yield item
        return
    for part in match["ranges"].split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash)):
            yield item
            return
        for number in range(int(first), int(last or first) + 1):
            for rest in _expand(match["after"]):
                yield f"{match['before']}{number:0{len(first)}d}{rest}"
