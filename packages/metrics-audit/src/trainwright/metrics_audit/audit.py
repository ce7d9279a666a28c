"""The audit of a run's last session: refuse the log, or summarize what it gives evidence of."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from trainwright.metrics_audit import manifest, names
from trainwright.metrics_audit.reading import read_records, require_files
from trainwright.metrics_audit.refusal import InvalidRun
from trainwright.metrics_audit.session import SessionAudit
from trainwright.metrics_audit.values import MAX_WHOLE, shown

__all__ = ["InvalidRun", "summarize"]


def summarize(
    run_directory: str | PathLike[str],
    *,
    after_step: int = 0,
    expect_step: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Audit the last session of a run directory and return its summary, whose keys stand in the order of the format.

    Windows that begin at or after step ``after_step`` make the steady rate (tokens/s). With ``expect_step`` the
    session must have ended normally at exactly that step. ``on_progress`` is told the bytes read so far.

    Raises `InvalidRun` at the first thing that is not as the session log's format says. Writes and repairs nothing.
    """
    require_step("after_step", after_step)
    if expect_step is not None:
        require_step("expect_step", expect_step)
    directory = Path(run_directory)
    require_files(directory)
    run = manifest.read(directory)
    audit = SessionAudit(run.run_id, run.sessions[-1], after_step)
    wanted, feed = audit.session_id, audit.feed
    for line, record in read_records(directory / names.METRICS_FILE, on_progress):
        if record["session_id"] == wanted:
            try:
                feed(record)
            except InvalidRun as refusal:
                raise refusal.at(names.METRICS_FILE, line) from None
    summary = audit.summary(len(run.sessions))
    require_end(audit, expect_step)
    return summary


def require_step(name: str, value: object) -> None:
    """Raise `InvalidRun` unless ``value`` is an integer of at least 0 (a boolean is none)."""
    if type(value) is not int or not 0 <= value <= MAX_WHOLE:
        raise InvalidRun(f"{name} is {shown(value)}; it must be an integer of at least 0")


def require_end(audit: SessionAudit, expect_step: int | None) -> None:
    """Raise `InvalidRun` when an end at ``expect_step`` is demanded and the session has none there."""
    if expect_step is None or audit.end_step == expect_step:
        return
    if audit.end_step is None:
        found = f"the session has no session_end; its last window ends at step {audit.step}"
    else:
        found = f"the session ended at step {audit.end_step}"
    raise InvalidRun(f"a session_end is expected at step {expect_step}, but {found}", file=names.METRICS_FILE)
