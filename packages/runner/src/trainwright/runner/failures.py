"""What an exception in the middle of a run means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trainwright.runner.errors import RunError, RunFailed


def lost_contact(error: BaseException) -> bool:
    """Whether this rank only suffers from what happened to another: its peer is gone, or does not answer any more."""
    from torch.distributed import DistError

    return isinstance(error, DistError) or "gloo" in str(error)


def named[E: BaseException](error: E) -> E | RunFailed:
    """`error` itself, or the failure that a person is told of instead."""
    if isinstance(error, RunError) or not lost_contact(error):
        return error
    return RunFailed("contact with another rank is lost: it has failed or was ended, and its own last words say why")


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
