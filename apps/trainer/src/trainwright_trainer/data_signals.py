"""A command that writes files ends cleanly when it is stopped."""

from __future__ import annotations

import signal


class Stopped(Exception):
    """A signal ended the work. One line; exit code 1."""

    exit_code = 1


def stop_cleanly() -> None:
    """From here on SIGINT and SIGTERM are errors like any other, so that what was begun is cleaned up."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)


def _stop(number: int, _frame: object) -> None:
    raise Stopped(f"stopped by {signal.Signals(number).name}; nothing was written")
