"""Run one child process to its end: signals go down to it, its standard error comes up without torchrun's noise."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)

_TORCHRUN_LOG = re.compile(rb"^[A-Z]\d{4} [\d:.]+ \d+ (?:\S*/)?torch/distributed/")
_TORCHRUN_FRAME = re.compile(rb'^  File "[^"]*(?:/torchrun|/torch/distributed/run\.py)", line ')
_TRACEBACK = b"Traceback (most recent call last):"


@dataclass(frozen=True)
class Outcome:
    """How the child ended.

    `returncode` is negative for a signal; `noise` is what torchrun itself said; `signalled` is the first signal caught.
    """

    returncode: int
    noise: bytes
    signalled: signal.Signals | None


def supervise(argv: Sequence[str], *, environment: Mapping[str, str], cwd: Path) -> Outcome:
    """Run `argv` with `environment` until it ends; standard output is inherited.

    SIGTERM and SIGUSR1 are passed on once. SIGINT, which is Ctrl-C, asks for the same stop in good order and so goes
    down as SIGTERM; a second one kills the child and everything it started.
    """
    received: list[signal.Signals] = []
    child: list[subprocess.Popen[bytes]] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        received.append(signal.Signals(number))
        if child:
            _pass_on(child[0], received)

    # A session of its own: Ctrl-C in a terminal reaches the launcher alone, which passes it on once.
    with (
        _handlers(on_signal),
        subprocess.Popen(
            argv, env={**os.environ, **environment}, cwd=cwd, stderr=subprocess.PIPE, start_new_session=True
        ) as process,
    ):
        child.append(process)
        if received:
            _pass_on(process, received)
        assert process.stderr is not None  # noqa: S101 - stderr=PIPE above
        sieve = _Sieve(process.stderr, sys.stderr.buffer)
        sieve.start()
        returncode = process.wait()
        sieve.join()
    return Outcome(returncode, bytes(sieve.noise), received[0] if received else None)


@contextmanager
def _handlers(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Install `handler` for the forwarded signals, and put back what was there."""
    before = {number: signal.signal(number, handler) for number in FORWARDED}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def _pass_on(process: "subprocess.Popen[bytes]", received: Sequence[signal.Signals]) -> None:
    if len(received) == 1:
        process.send_signal(signal.SIGTERM if received[0] is signal.SIGINT else received[0])
    elif received[-1] is signal.SIGINT:
        for pid in [*_descendants(process.pid), process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """Processes started by `pid`, and theirs, as the kernel lists them (Linux; none known elsewhere)."""
    found: list[int] = []
    with suppress(ProcessLookupError, FileNotFoundError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [*_descendants(int(child)), int(child)]
    return found


class _Sieve(threading.Thread):
    """Copies lines as they come, except torchrun's own, which it keeps.

    torchrun's log lines name torch/distributed. When a rank fails, torchrun itself ends in a traceback whose first
    frame is torchrun, after which nothing of a rank's can follow: every rank is gone by then.
    """

    def __init__(self, source: IO[bytes], sink: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._source, self._sink = source, sink
        self.noise = bytearray()

    def run(self) -> None:
        at_the_end = False
        held = b""
        for line in self._source:
            at_the_end = at_the_end or (bool(held) and _TORCHRUN_FRAME.match(line) is not None)
            if at_the_end or _TORCHRUN_LOG.match(line):
                self.noise += held + line
                held = b""
                continue
            self._copy(held)
            held = line if line.rstrip() == _TRACEBACK else b""
            self._copy(b"" if held else line)
        self._copy(held)

    def _copy(self, data: bytes) -> None:
        self._sink.write(data)
        self._sink.flush()
