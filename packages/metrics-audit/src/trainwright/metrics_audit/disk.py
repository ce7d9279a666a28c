"""What the writer asks of the file system: one holder at a time, no half-written file, no torn tail."""

import contextlib
import fcntl
import os
from pathlib import Path

from trainwright.metrics_audit.errors import RunDirectoryBusy, SessionLogError

_BLOCK = 1 << 16


def open_locked(path: Path) -> int:
    """Open a log for appending, made if it is missing, and lock it until the descriptor is closed.

    Raises `RunDirectoryBusy` when another holds it, `SessionLogError` when it cannot be locked, `OSError` when it
    cannot be opened.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            _lock(descriptor, path)
            # The holder before may have removed an empty log between our opening and our locking it; then once more.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RunDirectoryBusy(f"another process is writing to the run directory {path.parent}") from None
    except OSError as error:
        reason = f"cannot lock {path}: {error.strerror}; the file system must support flock"
        raise SessionLogError(reason) from None


def move_torn_tail(descriptor: int, torn_file: Path) -> None:
    """Keep what follows the last newline in ``torn_file``, then cut it off; in this order nothing is ever lost."""
    size = os.fstat(descriptor).st_size
    committed = _end_of_last_line(descriptor, size)
    if committed == size:
        return
    torn = bytearray()
    while committed + len(torn) < size:
        torn += os.pread(descriptor, min(_BLOCK, size - committed - len(torn)), committed + len(torn))
    replace_file(torn_file, bytes(torn))
    os.ftruncate(descriptor, committed)
    os.fsync(descriptor)


def _end_of_last_line(descriptor: int, size: int) -> int:
    end = size
    while end > 0:
        start = max(0, end - _BLOCK)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def replace_file(path: Path, content: bytes) -> None:
    """Put ``content`` at ``path`` so that a reader, or a crash, finds the old file or the new one."""
    sibling = path.with_name(path.name + ".tmp")
    with sibling.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    sibling.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
