"""The one exception of the audit."""

from typing import Self


class InvalidRun(ValueError):
    """The evidence is refused. ``str()`` is one sentence, with the file and line where there is one.

    ``reason`` is the sentence without its place; ``file`` and ``line`` (from 1) are that place, or None.
    """

    def __init__(self, reason: str, *, file: str | None = None, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.file = file
        self.line = line

    def at(self, file: str, line: int | None = None) -> Self:
        """Say where the fault stands, and return self to be raised."""
        self.file, self.line = file, line
        return self

    def __str__(self) -> str:
        if self.file is None:
            return self.reason
        place = self.file if self.line is None else f"{self.file} line {self.line}"
        return f"{place}: {self.reason}"
