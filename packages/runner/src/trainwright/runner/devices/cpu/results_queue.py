"""How a checkpoint's writers report back."""

from __future__ import annotations

import queue


def use_results_queue(*, asynchronous: bool) -> None:
    """Choose the queue of the next save.

    Writers of a synchronous save are threads of this process; a plain queue serves them. Megatron Core would start a
    manager process, which imports the main module anew: seconds, and a crash in a program without a main guard.
    The writer of an asynchronous save is another process and needs that manager; it is started at the next save.
    """
    from megatron.core.dist_checkpointing.strategies import filesystem_async

    in_process = isinstance(filesystem_async._results_queue, queue.Queue)
    if asynchronous and in_process:
        filesystem_async._results_queue = None
    elif not asynchronous and not in_process:
        filesystem_async._results_queue = queue.Queue()
