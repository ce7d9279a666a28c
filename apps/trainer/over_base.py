"""Constraints for pip in an image that has packages of its own.

    python3 over_base.py versions.txt > constraints.txt

torch is held at the version that the image brings. Of the other packages those that are there stay unless they are too
old, which is pip's own way; those that are not get the version that `versions.txt`, made from uv.lock, names.
"""

import re
import sys
from importlib.metadata import distributions


def constraints(locked: str, installed: dict[str, str]) -> list[str]:
    """Lines for pip. `installed` maps names, as `canonical` writes them, to versions."""
    if "torch" not in installed:
        raise SystemExit("over_base.py: the base image has no torch")
    named = {line: canonical(found[0]) for line in locked.splitlines() if (found := re.match(r"[\w.-]+", line))}
    return [f"torch=={installed['torch']}", *(line for line, name in named.items() if name not in installed)]


def canonical(name: str) -> str:
    """One spelling for each name."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    here = {canonical(one.name): one.version for one in distributions()}
    with open(sys.argv[1], encoding="utf-8") as file:
        print("\n".join(constraints(file.read(), here)))
