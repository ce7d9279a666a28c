"""Real ranks on this machine: one process each, talking over gloo.

Ranks are forked from a server that has imported torch and Megatron Core already, so that starting four of them takes a
fraction of a second and not half a minute.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import connection
from typing import Any

PRELOAD = "trainwright.runner.local_ranks_preload"
"""What the server imports: for the CPU."""
BETWEEN_LOOKS = 0.2
"""Seconds."""
LAST_WORDS = 30.0
"""Seconds in which the others may end by themselves once a rank has failed, and say what that did to them."""
PR_SET_PDEATHSIG = 1
"""Of Linux's `prctl`."""


class RankFailed(Exception):
    """A rank raised or died; the message holds the tracebacks of all that did, the first one first."""

    def __init__(self, message: str, *, told: tuple[int, str] | None = None) -> None:
        super().__init__(message)
        self.told = told
        """Exit code and line of the first, where it is meant for a person; null for a fault of the program."""


def run_ranks(
    function: Callable[..., Any],
    world_size: int,
    *arguments: Any,
    timeout: float = 240,
    meanwhile: Callable[[], None] | None = None,
) -> list[Any]:
    """Call `function(*arguments)` on `world_size` ranks and return their results in rank order.

    The environment of each rank is as torchrun would make it. `function` must be importable by name, and arguments and
    results must be picklable. `meanwhile` is called again and again while the ranks work.

    Raises:
        RankFailed: a rank raised or died, or did not end within `timeout` seconds; the others are ended, after some
            time for their own last words.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOAD])
    port = free_port()
    pipes: dict[Any, int] = {}
    processes = []
    try:
        for rank in range(world_size):
            receiver, sender = context.Pipe(duplex=False)
            environment = {
                "RANK": str(rank),
                "WORLD_SIZE": str(world_size),
                "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": str(world_size),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            }
            process = context.Process(target=_rank, args=(sender, environment, function, arguments))
            process.start()
            sender.close()
            pipes[receiver] = rank
            processes.append(process)
        return _results(pipes, timeout, meanwhile)
    except BaseException:
        # The others may wait for the one that failed, for minutes.
        for process in processes:
            process.kill()
        raise
    finally:
        for process in processes:
            process.join()


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _rank(sender: Any, environment: dict[str, str], function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    import torch

    _end_with_the_server()
    os.environ.update(environment)
    # Ranks share the machine's cores, and one thread each makes results independent of how many there are.
    torch.set_num_threads(1)
    try:
        outcome: tuple[bool, Any] = (True, function(*arguments))
    except BaseException as error:
        code = getattr(error, "exit_code", None)
        told = (code, str(error)) if isinstance(code, int) else None
        outcome = (False, (f"raised:\n{traceback.format_exc()}", told))
    with suppress(BrokenPipeError):  # who asked is gone
        sender.send(outcome)


def _end_with_the_server() -> None:
    """Linux kills this process when its parent ends, which is the server and ends with the process that asked."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _results(pipes: dict[Any, int], timeout: float, meanwhile: Callable[[], None] | None) -> list[Any]:
    """Of each rank, in their order."""
    results: dict[int, Any] = {}
    failures: dict[int, tuple[str, tuple[int, str] | None]] = {}
    end = time.monotonic() + timeout
    while len(results) + len(failures) < len(pipes) and time.monotonic() < end:
        waiting = [pipe for pipe, rank in pipes.items() if rank not in results and rank not in failures]
        for pipe in connection.wait(waiting, BETWEEN_LOOKS):
            succeeded, value = _outcome(pipe)
            (results if succeeded else failures)[pipes[pipe]] = value
            if not succeeded:
                end = min(end, time.monotonic() + LAST_WORDS)
        if meanwhile is not None:
            meanwhile()
    if failures:
        (_, told), *_ = failures.values()
        raise RankFailed("\n".join(f"rank {rank} {what}" for rank, (what, _) in failures.items()), told=told)
    if silent := [rank for rank in pipes.values() if rank not in results]:
        raise RankFailed(f"rank {silent[0]} gave no result within {timeout} s")
    return [results[rank] for rank in sorted(results)]


def _outcome(pipe: Any) -> tuple[bool, Any]:
    """Whether a rank succeeded, and its result; else what became of it, and what that says to a person."""
    try:
        outcome: tuple[bool, Any] = pipe.recv()
    except EOFError:
        return False, ("died without a result", None)
    return outcome
