"""Progress bars, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

COLUMNS = {"bytes": ("DownloadColumn", "TransferSpeedColumn"), "items": ("MofNCompleteColumn",)}
"""What is counted -> what rich shows of it."""


@contextmanager
def progress_bar(title: str, total: int, *, of: str, shown: bool) -> Iterator[Callable[[int], None]]:
    """Gives a function to call with the `of` (bytes, items) done so far; shows nothing where stderr is no terminal."""
    if not (shown and sys.stderr.isatty()):
        yield lambda done: None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = [getattr(rich, name)() for name in COLUMNS[of]]
    bar = rich.Progress(title, rich.BarColumn(), *columns, rich.TimeRemainingColumn(), console=Console(stderr=True))
    with bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)
