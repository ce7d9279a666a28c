"""A progress bar for bytes read, on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def byte_progress(total: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Gives a function to call with the bytes done so far; shows nothing where stderr is no terminal."""
    if shown:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

        console = Console(stderr=True)
        if console.is_terminal:
            columns = ("reading", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
            with Progress(*columns, console=console) as bar:
                task = bar.add_task("reading", total=total)
                yield lambda done: bar.update(task, completed=done)
            return
    yield lambda done: None
