"""A folder of files that is expensive to make: made by whichever process is first, while the others wait.

The folder appears by a rename, so it is whole or not there, whatever happens to its builder. The lock only spares work:
where a file system does not lock across nodes, several builders write the same bytes and the first rename wins. The
kernel takes a lock from a process that is killed, so the next one that waits goes on in its place.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from functools import partial
from pathlib import Path

from trainwright.datasets.errors import DataError

POLL_SECONDS = 0.1
ABANDONED_SECONDS = 24 * 3600
"""Scratch of another node that has not changed for so long has no builder any more."""

_NO_LOCKS_HERE = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_held: set[int] = set()


class Lock(Enum):
    OURS = 1
    THEIRS = 2
    UNKNOWN = 3
    """The file system knows no locks."""


def built_once(
    entry: Path, build: Callable[[Path], None], is_whole: Callable[[Path], bool], *, on_wait: Callable[[], None]
) -> None:
    """Have `entry` be a folder that `is_whole`; `build` fills the empty folder that it is given.

    `on_wait` is called once where another process is at work.

    Raises:
        DataError: the folder cannot be written, or the process waited for ended with this error.
    """
    if is_whole(entry):
        return
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with _turn(entry, is_whole, on_wait) as (lock, tell):
            if is_whole(entry):
                return
            try:
                _build(entry, build, is_whole, lock)
            except DataError as error:
                tell(str(error))
                raise
    except OSError as error:
        raise DataError(f"{entry.name} cannot be kept in {entry.parent}: {error}; set dataset.path_to_cache") from error


def _build(entry: Path, build: Callable[[Path], None], is_whole: Callable[[Path], bool], lock: Lock) -> None:
    """Build under a name of its own, then rename."""
    scratch = entry.with_name(f".{entry.name}.{socket.gethostname()}.{uuid.uuid4().hex}")
    scratch.mkdir()
    try:
        _sweep(entry, scratch, lock)
        build(scratch)
        for file in scratch.iterdir():
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
        try:
            os.rename(scratch, entry)
        except OSError:
            if is_whole(entry):
                return  # a builder that no lock held back was first, with the same bytes
            if not entry.exists():
                raise
            # What stands there cannot be read: put aside and replaced.
            os.rename(entry, scratch / "damaged")
            shutil.rmtree(scratch / "damaged")
            os.rename(scratch, entry)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _sweep(entry: Path, mine: Path, lock: Lock) -> None:
    """Remove what killed builders left: on this node, where nobody else can be at work, and elsewhere what is old."""
    here, now = f".{entry.name}.{socket.gethostname()}.", mine.stat().st_mtime
    for scratch in entry.parent.glob(f".{entry.name}.*.*"):
        if scratch == mine or not scratch.is_dir():
            continue
        changed = max(path.stat().st_mtime for path in (scratch, *scratch.iterdir()))
        if (lock is Lock.OURS and scratch.name.startswith(here)) or now - changed > ABANDONED_SECONDS:
            shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _turn(
    entry: Path, is_whole: Callable[[Path], bool], on_wait: Callable[[], None]
) -> Iterator[tuple[Lock, Callable[[str], None]]]:
    """Wait until nobody else is at work on `entry`, or it is whole. Gives a way to tell those who wait of an error."""
    path = entry.with_name(f".{entry.name}.lock")
    waited = False
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        _held.add(file)
        try:
            while (lock := _lock(file)) is Lock.THEIRS and not is_whole(entry):
                if not waited:
                    on_wait()
                waited = True
                time.sleep(POLL_SECONDS)
            if lock is not Lock.THEIRS and (message := os.pread(file, 1 << 16, 0)):
                raise DataError(message.decode())
            # A holder removes the file before it lets go: who then gets the lock of a removed file tries again.
            if lock is Lock.OURS and not _is_at(file, path):
                continue
            try:
                yield lock, partial(_write, file)
            finally:
                if lock is not Lock.THEIRS:
                    path.unlink(missing_ok=True)
            return
        finally:
            _held.discard(file)
            os.close(file)


def _lock(file: int) -> Lock:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return Lock.THEIRS
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise
        return Lock.UNKNOWN
    return Lock.OURS


def _write(file: int, message: str) -> None:
    os.pwrite(file, message.encode(), 0)


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _let_go() -> None:
    """In a forked child: its copy of the file would keep the lock after the builder's death."""
    for file in _held:
        with suppress(OSError):
            os.close(file)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)
