"""Watching a live run: the same checks as the audit, on each line once it is complete."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from trainwright.metrics_audit import manifest, names
from trainwright.metrics_audit.reading import MAX_LINE_BYTES, record_of
from trainwright.metrics_audit.refusal import InvalidRun
from trainwright.metrics_audit.session import SessionAudit

POLL_SECONDS = 1.0


def follow(
    run_directory: Path,
    *,
    expect_step: int | None = None,
    show: Callable[[str], None],
    poll_seconds: float = POLL_SECONDS,
) -> None:
    """Wait until the newest session has written its ``session_end``; the caller audits strictly from there.

    The run directory need not exist yet. ``show`` gets a line about where the run stands whenever that changes. Only a
    last line without its newline is tolerated; anything else that the audit refuses raises `InvalidRun` at once.
    """
    view = _View(run_directory, expect_step)
    shown = ""
    while True:
        ended = view.catch_up()
        line = view.progress()
        if line != shown:
            show(line)
            shown = line
        if ended:
            return
        time.sleep(poll_seconds)


class _View:
    """What has been read of a growing log."""

    def __init__(self, run_directory: Path, expect_step: int | None) -> None:
        self.run_directory = run_directory
        self.expect_step = expect_step
        self.audit: SessionAudit | None = None
        self.known_sessions: list[Any] = []
        self.line = 0
        self.offset = 0
        self.last_event = ""

    def catch_up(self) -> bool:
        """Read what was added; return whether the newest session has ended."""
        if not (self.run_directory / names.MANIFEST_FILE).exists():
            return False
        self._read_manifest()
        for record in self._new_records():
            if record["session_id"] not in self.known_sessions:
                # A session enters the manifest before its first record enters the log.
                self._read_manifest()
            self._feed(record)
        return self.audit is not None and self.audit.end_step is not None

    def progress(self) -> str:
        """Return one line about where the run stands."""
        audit = self.audit
        if audit is None:
            return f"waiting for {self.run_directory / names.MANIFEST_FILE}"
        if not audit.events:
            return f"{audit.session_id}  waiting for its first record"
        words = [audit.session_id, f"step {audit.step:,}"]
        if self.expect_step is not None:
            words[-1] += f" of {self.expect_step:,}"
        if audit.last_loss is not None:
            words.append(f"loss {audit.last_loss:.4f}")
        words += [f"{audit.wall_tokens_per_second:,.0f} tokens/s", f"elapsed {_clock(audit.elapsed_seconds)}"]
        if self.expect_step is not None and audit.updates and audit.step < self.expect_step:
            left = (self.expect_step - audit.step) * audit.elapsed_seconds / audit.updates
            words.append(f"left {_clock(left)}")
        if self.last_event == names.SESSION_INTERRUPTED:
            words.append("interrupted, waiting for the next session")
        return "  ".join(words)

    def _read_manifest(self) -> None:
        run = manifest.read(self.run_directory)
        self.known_sessions = [session.get("session_id") for session in run.sessions if type(session) is dict]
        if self.audit is None or self.audit.session_id != run.sessions[-1]["session_id"]:
            self.audit = SessionAudit(run.run_id, run.sessions[-1], after_step=0)
            self.last_event = ""

    def _feed(self, record: dict[str, Any]) -> None:
        if self.audit is None or record["session_id"] != self.audit.session_id:
            return
        try:
            self.audit.feed(record)
        except InvalidRun as refusal:
            raise refusal.at(names.METRICS_FILE, self.line) from None
        self.last_event = record["event"]

    def _new_records(self) -> Iterator[dict[str, Any]]:
        path = self.run_directory / names.METRICS_FILE
        try:
            with path.open("rb") as file:
                file.seek(self.offset)
                while line := file.readline(MAX_LINE_BYTES + 1):
                    if not line.endswith(b"\n") and len(line) <= MAX_LINE_BYTES:
                        return
                    self.line += 1
                    self.offset += len(line)
                    yield record_of(line)
        except InvalidRun as refusal:
            raise refusal.at(names.METRICS_FILE, self.line) from None
        except FileNotFoundError:
            return
        except OSError as error:
            raise InvalidRun(f"cannot be read: {error.strerror}", file=names.METRICS_FILE) from None


def _clock(seconds: float) -> str:
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}"
