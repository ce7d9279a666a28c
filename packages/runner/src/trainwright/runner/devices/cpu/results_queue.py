"""How a checkpoint's writers report back."""

from __future__ import annotations

import multiprocessing
import queue
import threading
from typing import Any

PATIENCE_SECONDS = 60.0
"""For a result that a writer has sent before it ended, and the thread below has not received yet."""


class ForkedResults:
    """A queue from a forked writer to this process.

    A result may be larger than a pipe holds, and this process waits for the writer's end before it looks here; so a
    thread takes out of the pipe what comes.
    """

    def __init__(self) -> None:
        self._receiver, self._sender = multiprocessing.Pipe(duplex=False)
        self._received: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._receive, name="checkpoint results", daemon=True).start()

    def put(self, result: Any) -> None:
        """Send, in the writer."""
        self._sender.send(result)

    def get_nowait(self) -> Any:
        """The next result. Raises `queue.Empty` when the writer has ended without one."""
        return self._received.get(timeout=PATIENCE_SECONDS)

    def _receive(self) -> None:
        while True:
            self._received.put(self._receiver.recv())


def use_results_queue(*, asynchronous: bool) -> None:
    """Choose the queue of the next save.

    Writers of a synchronous save are threads of this process; a plain queue serves them. The writer of an asynchronous
    save is forked. For both Megatron Core would start a manager process, which imports the main module anew: seconds,
    a crash in a program without a main guard, and a process that outlives a rank that is killed.
    """
    from megatron.core.dist_checkpointing.strategies import filesystem_async

    wanted = ForkedResults if asynchronous else queue.Queue
    if type(filesystem_async._results_queue) is not wanted:
        filesystem_async._results_queue = wanted()
