"""Work through several processes, results in the order of the work."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from typing import Any

from trainwright.datasets.errors import DataError

ITEMS_AHEAD = 3
"""Items handed out ahead for each worker: enough to keep it busy, and a bound on memory."""

_work: Callable[[Any], Any]


def in_order[Item, Result](
    work: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[tuple[Item, Result]]:
    """Each item with what `work` makes of it, in order. The first that fails, in that order, ends it with its error.

    Results travel between processes, `work` and items' own data need not: the workers are forked.
    """
    if workers == 1:
        for item in items:
            yield item, work(item)
        return
    # A Hugging Face tokenizer has threads of its own, which do not survive a fork; one document needs none.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # Forked: a worker shares the tokenizer and starts at once.
    context = multiprocessing.get_context("fork")
    ours, theirs = os.pipe()  # nothing is ever written: it ends when this process does
    try:
        with ProcessPoolExecutor(workers, context, initializer=_start, initargs=(work, ours, theirs)) as pool:
            pending: deque[tuple[Item, Future[Result]]] = deque()
            try:
                for item in items:
                    with _signals_later() if not pending else nullcontext():
                        pending.append((item, pool.submit(_do, item)))
                    if len(pending) >= workers * ITEMS_AHEAD:
                        yield _first(pending)
                while pending:
                    yield _first(pending)
            except BrokenProcessPool:
                raise DataError("a worker was killed (out of memory?); fewer --workers need less") from None
            finally:
                pool.shutdown(cancel_futures=True)
    finally:
        os.close(ours)
        os.close(theirs)


@contextmanager
def _signals_later() -> Iterator[None]:
    """Hold back what SIGINT and SIGTERM do: an exception that a handler raises in the midst of a fork is lost."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    if threading.current_thread() is not threading.main_thread() or None in handlers.values():
        yield
        return
    arrived: list[int] = []
    for number in handlers:
        signal.signal(number, lambda number, _frame: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in arrived:
            signal.raise_signal(number)


def _first[Item, Result](pending: deque[tuple[Item, Future[Result]]]) -> tuple[Item, Result]:
    item, future = pending.popleft()
    return item, future.result()


def _start(work: Callable[[Any], Any], read_end: int, write_end: int) -> None:
    global _work
    _work = work
    # Ctrl-C reaches every process of the terminal, and what stops a job all of its processes: the parent decides, which
    # may have files to clean up or a checkpoint to write, and its end is the workers'.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    os.close(write_end)
    threading.Thread(target=_end_with_parent, args=(read_end,), daemon=True).start()


def _end_with_parent(read_end: int) -> None:
    """A worker whose parent is killed would wait for its next item for ever."""
    os.read(read_end, 1)
    os._exit(1)


def _do(item: Any) -> Any:
    return _work(item)
