"""What an exception in the middle of a run means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trainwright.runner.errors import RunError, RunFailed


def named[E: BaseException](error: E) -> E | RunFailed:
    """`error` itself, or the failure that a person is told of instead."""
    if hasattr(error, "exit_code"):  # meant for a person already; and maybe raised before torch is imported
        return error
    if lost_contact(error):
        return RunFailed(
            "contact with another rank is lost: it has failed or was ended, and its own last words say why"
        )
    if out_of_memory(error):
        return RunFailed(f"out of memory, a smaller train.micro_batch_size needs less: {first_line(error)}")
    return error


def lost_contact(error: BaseException) -> bool:
    """Whether this rank only suffers from what happened to another: its peer is gone, or does not answer any more."""
    from torch.distributed import DistError

    # Gloo's errors have no type of their own; each names the line that raised it.
    return isinstance(error, DistError) or "third_party/gloo/" in str(error)


def out_of_memory(error: BaseException) -> bool:
    """Whether memory of the device or of the host did not suffice."""
    from torch import OutOfMemoryError

    return isinstance(error, MemoryError | OutOfMemoryError) or "DefaultCPUAllocator" in str(error)


@contextmanager
def failing_as(what: str) -> Iterator[None]:
    """Make one line, `what: reason`, of whatever goes wrong inside.

    Raises:
        RunFailed: something went wrong, here or on another rank.
    """
    from torch.distributed.checkpoint.api import CheckpointException

    try:
        yield
    except RunError:
        raise
    except (Exception, CheckpointException) as error:  # torch derives its own from BaseException
        failure = named(error)
        if failure is error:
            failure = RunFailed(f"{what}: {first_line(error)}")
        raise failure from error


def first_line(error: BaseException) -> str:
    """What is wrong, as short as it was said by the rank where it went wrong."""
    causes = getattr(error, "failures", None)  # torch's CheckpointException: rank -> (exception, traceback)
    if causes:
        error = next(iter(causes.values()))[0]
    line = str(getattr(error, "strerror", None) or str(error).strip() or type(error).__name__).splitlines()[0]
    return line if isinstance(error, RunError) else line[:300]
