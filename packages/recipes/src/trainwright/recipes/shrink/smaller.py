"""A configuration while it is made smaller: each rule sets values in it, and says what it did."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainwright.recipes.draft import Draft, show

if TYPE_CHECKING:
    from trainwright.recipes.pipeline import ResolvedRun
    from trainwright.recipes.shrink.grid import Grid

REHEARSAL = "rehearsal"
"""The source of a value that a rule has set."""


@dataclass
class Smaller:
    """The run as it would be launched, the grid that it gets, and a draft of the smaller one."""

    full: "ResolvedRun"
    whole: "Grid"
    grid: "Grid"
    folder: str
    """Where the rehearsal reads and writes."""
    draft: Draft
    shrunk: dict[str, str] = field(default_factory=dict)
    """What was made smaller -> in a line, from what to what and by which rule."""
    unchecked: list[str] = field(default_factory=list)
    """What therefore, or for want of GPUs, is not checked."""

    def __getitem__(self, path: str) -> Any:
        return self.draft[path]

    def put(self, path: str, value: Any) -> None:
        """Set a field, unless it has that value."""
        if path not in self.draft.values or self.draft[path] != value:
            self.draft.put(path, value, REHEARSAL)

    def fewer(self, path: str, most: int, multiple_of: int = 1) -> None:
        """Make a number, if there is one, at most `most`, rounded up to a multiple."""
        if self[path] is not None:
            self.put(path, round_up(min(self[path], most), multiple_of))

    def of(self, path: str) -> Any:
        """The value of the run as it would be launched."""
        section, _, name = path.partition(".")
        return getattr(getattr(self.full.config, section), name)

    def say(self, what: str, *parts: str) -> None:
        """Note what was made smaller; empty parts are left out."""
        if told := "; ".join(part for part in parts if part):
            self.shrunk[what] = told

    def change(self, *paths: str, of: str = "") -> str:
        """`NAME BEFORE -> AFTER` of numbers, where they have changed; `of` is their name."""
        before, after = (
            [show(values(path)) for path in paths if self.of(path) is not None]
            for values in (self.of, self.__getitem__)
        )
        return f"{of} {'/'.join(before)} -> {'/'.join(after)}".strip() if before != after else ""


def round_up(number: int, multiple_of: int) -> int:
    """The next multiple."""
    return math.ceil(number / multiple_of) * multiple_of
