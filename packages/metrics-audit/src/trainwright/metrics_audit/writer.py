"""The writer of the session log: one process appends, and a crash costs at most the line being written."""

import contextlib
import json
import math
import os
import secrets
import time
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from trainwright.metrics_audit import names
from trainwright.metrics_audit.disk import move_torn_tail, open_locked, replace_file
from trainwright.metrics_audit.errors import InvalidRecord, RunDirectoryBusy, SessionLogError

__all__ = ["InvalidRecord", "RunDirectoryBusy", "SessionLog", "SessionLogError", "read_manifest"]

MAX_LINE_BYTES = 8 * 1024 * 1024


def read_manifest(run_directory: Path) -> dict[str, Any] | None:
    """Return ``run.json`` of a run directory as it stands, or None where there is none yet.

    Raises `SessionLogError` when the file is there and cannot be continued.
    """
    path = Path(run_directory) / names.MANIFEST_FILE
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SessionLogError(f"{path} cannot be read as a manifest: {error}") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("sessions"), list):
        raise SessionLogError(f"{path} is no manifest of a run: it has no list of sessions")
    if manifest.get("schema_version") != names.SCHEMA_VERSION:
        found = manifest.get("schema_version")
        raise SessionLogError(f"{path} has schema_version {found!r}; this writer continues {names.SCHEMA_VERSION} only")
    if not isinstance(manifest.get("run_id"), str):
        raise SessionLogError(f"{path} has no run_id")
    return manifest


class SessionLog:
    """The open log of one run directory, held by one process.

    Make it with `open`; then at most one `start_session` and any number of `write`. Not for use by several threads.
    Opening takes a lock that the operating system drops when the process dies, however it dies.
    """

    def __init__(self, run_directory: Path, descriptor: int, manifest: dict[str, Any]) -> None:
        self._directory = run_directory
        self._descriptor = descriptor
        self._manifest = manifest
        self._session_id: str | None = None
        self._ended = False
        _open_logs.add(self)

    @classmethod
    def open(cls, run_directory: Path, *, run_id: str) -> Self:
        """Lock ``run_directory`` for this process and read what earlier sessions left.

        The directory is made when it is missing. A run that already has a ``run.json`` keeps its run id and its
        sessions; nothing in it changes before `start_session`.

        Raises `RunDirectoryBusy` when another process holds it, `SessionLogError` when it cannot be continued.
        """
        run_directory = Path(run_directory)
        path = run_directory / names.METRICS_FILE
        try:
            run_directory.mkdir(parents=True, exist_ok=True)
            descriptor = open_locked(path)
        except OSError as error:
            raise SessionLogError(f"cannot open {path} for writing: {error.strerror}") from None
        try:
            manifest = read_manifest(run_directory)
            if manifest is None:
                if os.fstat(descriptor).st_size:
                    raise SessionLogError(f"{path} holds records, but {names.MANIFEST_FILE} beside it is missing")
                manifest = {
                    "schema_version": names.SCHEMA_VERSION,
                    "run_id": run_id,
                    "created_at": _utc_now(),
                    "sessions": [],
                }
        except BaseException:
            os.close(descriptor)
            raise
        return cls(run_directory, descriptor, manifest)

    @property
    def run_id(self) -> str:
        """The run's identity: that of an existing ``run.json``, else the one given to `open`."""
        return str(self._manifest["run_id"])

    @property
    def session_id(self) -> str | None:
        """The id of the session that this process started, or None."""
        return self._session_id

    def start_session(
        self,
        *,
        start: Mapping[str, Any],
        recipe: Mapping[str, Any],
        hardware: Mapping[str, Any],
        optimizers: list[str],
    ) -> str:
        """Append a session to ``run.json`` and return its id.

        ``start`` is what the checkpoint restored (``step``, ``tokens``, ``skipped_updates``; zeros for a fresh run).
        A torn tail that a crash left in the log is first moved to ``metrics.jsonl.torn-<session_id>``.

        Raises `InvalidRecord` when a key is missing or a value is no strict JSON, and `SessionLogError` when this
        process has a session already or a file cannot be written.
        """
        self._require_open()
        if self._session_id is not None:
            raise SessionLogError(f"this process has started session {self._session_id} already")
        for part, keys, given in (
            ("start", names.POINT_KEYS, start),
            ("recipe", names.RECIPE_KEYS, recipe),
            ("hardware", names.HARDWARE_KEYS, hardware),
        ):
            _require_keys(part, keys, given)
        sessions = self._manifest["sessions"]
        session_id = f"{len(sessions) + 1:04d}-{secrets.token_hex(2)}"
        session = {
            "session_id": session_id,
            "started_at": _utc_now(),
            "start": dict(start),
            "recipe": dict(recipe),
            "hardware": dict(hardware),
            "optimizers": list(optimizers),
        }
        manifest = {**self._manifest, "sessions": [*sessions, session]}
        text = _strict_json(manifest, indent=2)
        try:
            move_torn_tail(self._descriptor, self._directory / f"{names.TORN_FILE_PREFIX}{session_id}")
            replace_file(self._directory / names.MANIFEST_FILE, text.encode() + b"\n")
        except OSError as error:
            raise SessionLogError(f"cannot start a session in {self._directory}: {error.strerror}") from None
        self._manifest, self._session_id = manifest, session_id
        return session_id

    def write(self, event: str, *, step: int, **fields: Any) -> None:
        """Append one record, and return when it is on the disk.

        ``step`` counts the run's successful updates so far. ``fields`` are the record's other keys: ``session`` and
        ``memory``, the event's own (`names.EVENT_KEYS`), and any more that the caller likes.

        Raises `InvalidRecord` before anything is written, `SessionLogError` when the session has not started or has
        ended, or when the disk refuses the line (none of it stays in the log then).
        """
        self._require_open()
        if self._session_id is None:
            raise SessionLogError(f"cannot write {event!r}: no session has been started")
        if self._ended:
            raise SessionLogError(f"cannot write {event!r}: session {self._session_id} has written its session_end")
        for key in names.STAMP_KEYS:
            if key in fields:
                raise InvalidRecord(f"{event}.{key} is set by the writer and cannot be given")
        _require_keys(event, ("session", "memory", *names.EVENT_KEYS.get(event, ())), fields)
        stamp = {
            "event": event,
            "run_id": self.run_id,
            "session_id": self._session_id,
            "time": time.time(),
            "step": step,
        }
        line = _strict_json({**stamp, **fields}, where=event).encode() + b"\n"
        if len(line) > MAX_LINE_BYTES:
            raise InvalidRecord(f"{event} record of {len(line)} bytes is longer than {MAX_LINE_BYTES}")
        self._append(line)
        self._ended = event == names.SESSION_END

    def close(self) -> None:
        """Give the run directory back. Closing twice does nothing.

        An empty log in a directory without a manifest goes again: nothing has been started there.
        """
        if self._descriptor >= 0 and self._session_id is None:
            path, manifest = self._directory / names.METRICS_FILE, self._directory / names.MANIFEST_FILE
            with contextlib.suppress(OSError):
                if not os.fstat(self._descriptor).st_size and not manifest.exists():
                    path.unlink()
        self._let_go()

    def _let_go(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require_open(self) -> None:
        if self._descriptor < 0:
            raise SessionLogError(f"the session log of {self._directory} is closed")

    def _append(self, line: bytes) -> None:
        size_before = os.fstat(self._descriptor).st_size
        try:
            written = os.write(self._descriptor, line)
            if written != len(line):
                raise OSError(0, f"only {written} of {len(line)} bytes fitted")
            os.fsync(self._descriptor)
        except OSError as error:
            # Half a line followed by later records would spoil them; what the disk refused is taken back whole.
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, size_before)
            path = self._directory / names.METRICS_FILE
            raise SessionLogError(f"cannot write to {path}: {error.strerror}") from None


_open_logs: "weakref.WeakSet[SessionLog]" = weakref.WeakSet()


def _close_in_forked_child() -> None:
    # A data-loader worker that outlives a killed trainer would otherwise keep the lock, and the requeued job out.
    for log in _open_logs:
        log._let_go()


os.register_at_fork(after_in_child=_close_in_forked_child)


def _require_keys(part: str, keys: tuple[str, ...], given: Mapping[str, Any]) -> None:
    missing = [key for key in keys if key not in given]
    if missing:
        raise InvalidRecord(f"{part} lacks {', '.join(missing)}")


def _strict_json(document: dict[str, Any], *, where: str = names.MANIFEST_FILE, indent: int | None = None) -> str:
    try:
        return json.dumps(document, allow_nan=False, indent=indent)
    except (TypeError, ValueError, RecursionError) as error:
        reason = next(_misfits(document, where), f"{where} is no strict JSON: {error}")
        raise InvalidRecord(reason) from None


def _misfits(value: Any, where: str, depth: int = 0) -> Iterator[str]:
    """Name each value that JSON has no form for, by its path of keys."""
    if depth > 100:
        yield f"{where[:60]}... is nested more than 100 deep"
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield f"{where} is {value}; the session log holds finite numbers only"
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str | int | float | bool | None):
                yield f"{where} has the key {key!r}, which is no string"
            yield from _misfits(item, f"{where}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _misfits(item, f"{where}[{index}]", depth + 1)
    elif value is not None and not isinstance(value, str | int):
        yield f"{where} is of type {type(value).__name__}, which is no JSON type"


def _utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
