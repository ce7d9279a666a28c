"""Real ranks for tests: one process each, on this machine, talking over gloo.

Ranks are forked from a server that has imported torch and Megatron Core already, so that starting four of them takes a
fraction of a second and not half a minute.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from typing import Any

PRELOAD = "trainwright.runner.testing_preload"


class RankFailed(Exception):
    """A rank raised; the message holds its traceback."""


def run_ranks(function: Callable[..., Any], world_size: int, *arguments: Any, timeout: float = 240) -> list[Any]:
    """Call `function(*arguments)` on `world_size` ranks and return their results in rank order.

    The environment of each rank is as torchrun would make it. `function` must be importable by name, and arguments and
    results must be picklable.

    Raises:
        RankFailed: a rank raised or died, or did not end within `timeout` seconds; the others are ended.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOAD])
    port = free_port()
    pipes, processes = [], []
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
        pipes.append(receiver)
        processes.append(process)
    try:
        return [_result(rank, pipe, timeout) for rank, pipe in enumerate(pipes)]
    except RankFailed:
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

    os.environ.update(environment)
    # Ranks share the machine's cores, and one thread each makes results independent of how many there are.
    torch.set_num_threads(1)
    try:
        sender.send((True, function(*arguments)))
    except BaseException:
        sender.send((False, traceback.format_exc()))


def _result(rank: int, pipe: Any, timeout: float) -> Any:
    if not pipe.poll(timeout):
        raise RankFailed(f"rank {rank} gave no result within {timeout} s")
    try:
        succeeded, value = pipe.recv()
    except EOFError:
        raise RankFailed(f"rank {rank} died without a result") from None
    if not succeeded:
        raise RankFailed(f"rank {rank} raised:\n{value}")
    return value
