"""Work that every rank does, in an order that lets the first on each file system do it for the others."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from trainwright.datasets.errors import DataError


def in_turns[T](work: Callable[[], tuple[T, str]]) -> T:
    """Run `work` on rank 0, then on the first rank of each node, then on all others; returns its first value.

    The second value says what the work was done on; it must be the same on every rank. Without torch.distributed
    the work just runs. Whatever goes wrong on one rank ends the work on all of them.

    Raises:
        DataError: the work failed on some rank, or ranks worked on different things.
    """
    from torch import distributed

    if not distributed.is_initialized():
        return work()[0]
    rank = distributed.get_rank()
    local_rank = os.environ.get("LOCAL_RANK") or os.environ.get("SLURM_LOCALID") or "0"
    my_turn = 0 if rank == 0 else 1 if local_rank == "0" else 2
    result: tuple[T, str] | None = None
    failure: Exception | None = None
    for turn in range(3):
        if turn == my_turn:
            try:
                result = work()
            except Exception as error:  # told to all ranks, then raised again
                failure = error
        _agree(failure, None if result is None else result[1])
    if result is None:
        raise RuntimeError("a rank had no turn")
    return result[0]


def at_once[T](work: Callable[[], T]) -> T:
    """Run `work` on all ranks, which share it out among themselves; whatever goes wrong on one ends it on all.

    Raises:
        DataError: the work failed on some rank.
    """
    result: T | None = None
    failure: Exception | None = None
    try:
        result = work()
    except Exception as error:  # raised again in its turn
        failure = error

    def told() -> tuple[Any, str]:
        if failure is not None:
            raise failure
        return result, ""

    finished: T = in_turns(told)
    return finished


def _agree(failure: Exception | None, basis: str | None) -> None:
    from torch import distributed

    reports: list[tuple[str | None, str | None]] = [(None, None)] * distributed.get_world_size()
    distributed.all_gather_object(reports, (None if failure is None else str(failure), basis))
    if failure is not None:
        raise failure
    for rank, (message, _) in enumerate(reports):
        if message is not None:
            raise DataError(f"rank {rank}: {message}")
    bases = {basis: rank for rank, (_, basis) in reversed(list(enumerate(reports))) if basis is not None}
    if len(bases) > 1:
        first, other, *_ = sorted(bases.values())
        raise DataError(f"ranks {first} and {other} read different files under the same names")
