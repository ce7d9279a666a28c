"""Keep what a talkative library prints, and show that it is at work."""

import itertools
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

_FRAME_SECONDS = 0.1


@contextmanager
def kept_output() -> Iterator[IO[bytes]]:
    """Send everything that this process and its children print into the file that is yielded.

    Below Python, since loggers keep the stream that they found when they were made.
    """
    with tempfile.TemporaryFile() as kept:
        sys.stdout.flush()
        sys.stderr.flush()
        saved = [os.dup(number) for number in (1, 2)]
        try:
            for number in (1, 2):
                os.dup2(kept.fileno(), number)
            yield kept
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, original in zip((1, 2), saved, strict=True):
                os.dup2(original, number)
                os.close(original)


def text_of(kept: IO[bytes]) -> str:
    """What has been kept so far."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept.seek(0)
    return kept.read().decode(errors="replace")


@contextmanager
def at_work(message: str) -> Iterator[None]:
    """Show `message` with a moving sign on standard error while the block runs; only where that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    # A descriptor of its own: the standard one may be kept from the terminal meanwhile.
    with os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8", errors="replace") as terminal:
        thread = threading.Thread(target=_move, args=(terminal, message, over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _move(terminal: IO[str], message: str, over: threading.Event) -> None:
    for sign in itertools.cycle("|/-\\"):
        terminal.write(f"\r{sign} {message}")
        terminal.flush()
        if over.wait(_FRAME_SECONDS):
            terminal.write("\r\x1b[K")
            return
