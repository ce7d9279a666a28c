"""Worker processes of a loader: no signal for the rank ends them, and they end with the process that started them."""

from __future__ import annotations

import os
import signal
import weakref
from collections.abc import Iterator
from multiprocessing import active_children
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

_workers: weakref.WeakSet[BaseProcess] = weakref.WeakSet()
_BEFORE_PYTHON_WAITS = 1
_registered_in: int | None = None


def ignore_stop_signals(_worker: int) -> None:
    """A signal to the whole job is for the rank, which then finishes the update; the worker must outlive it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)


def started(loader: DataLoader[Any]) -> Iterator[Any]:
    """The iterator of `loader`, whose workers are killed if they are still there when this process ends.

    An error keeps what its traceback holds. torch leaves the workers of such an iterator to Python, which ends them
    with SIGTERM, which they ignore, and then waits for them for ever.
    """
    global _registered_in
    iterator = iter(loader)
    if loader.num_workers:
        if _registered_in != os.getpid():  # a forked process forgets what its parent has registered
            _workers.clear()
            Finalize(None, _kill_workers, exitpriority=_BEFORE_PYTHON_WAITS)
            _registered_in = os.getpid()
        _workers.update(iterator._workers)  # type: ignore[attr-defined]  # torch's own name; a test holds it
    return iterator


def stop(iterator: Iterator[Any]) -> None:
    """End the workers of `started(loader)` now, while torch can still tell them."""
    shut_down = getattr(iterator, "_shutdown_workers", None)
    if shut_down is not None:
        shut_down()


def _kill_workers() -> None:
    left = set(_workers).intersection(active_children())
    if left:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler takes a killed worker for a failure
    for worker in left:
        worker.kill()
