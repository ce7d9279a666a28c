"""The audit of every session of a run, and of how each took over from an earlier one."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from trainwright.metrics_audit import manifest, names
from trainwright.metrics_audit.audit import require_end, require_step
from trainwright.metrics_audit.reading import read_records, require_files
from trainwright.metrics_audit.refusal import InvalidRun
from trainwright.metrics_audit.session import SessionAudit
from trainwright.metrics_audit.values import shown, table, whole


class Point(NamedTuple):
    """A place in the run: successful updates, tokens, and skipped updates since its beginning."""

    step: int
    tokens: int
    skipped_updates: int


def summarize_all(
    run_directory: str | PathLike[str],
    *,
    after_step: int = 0,
    expect_step: int | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Audit all sessions of a run directory.

    Returns ``run_id``; ``sessions``, the summaries of those that have a window; ``passed_over``, the ids of the others
    with the reason; and ``totals``: ``restarts``, ``tokens_trained`` (from the first start to where the last session
    stands), ``tokens_lost`` (logged, then rolled back by a restart), ``wall_seconds`` (of all sessions).

    Raises `InvalidRun` at the first fault in any session, at a session whose ``start`` no earlier session logged or
    checkpointed, and when no session has a window. ``expect_step`` is asked of the last session.
    """
    require_step("after_step", after_step)
    if expect_step is not None:
        require_step("expect_step", expect_step)
    directory = Path(run_directory)
    require_files(directory)
    run = manifest.read(directory, check_all_sessions=True)
    chain = _Chain([SessionAudit(run.run_id, session, after_step) for session in run.sessions])
    for line, record in read_records(directory / names.METRICS_FILE, on_progress):
        try:
            chain.feed(record)
        except InvalidRun as refusal:
            raise refusal.at(names.METRICS_FILE, line) from None
    chain.require_traced_starts()
    summaries = [audit.summary(len(chain.audits)) for audit in chain.audits if audit.windows]
    if not summaries:
        raise InvalidRun("no session has a train record", file=names.METRICS_FILE)
    require_end(chain.audits[-1], expect_step)
    return {
        "run_id": run.run_id,
        "sessions": summaries,
        "passed_over": [
            {"session_id": audit.session_id, "reason": "the session has no train record"}
            for audit in chain.audits
            if not audit.windows
        ],
        "totals": chain.totals(),
    }


class _Chain:
    """The sessions of a run in order, and of the points they logged only those that a later session starts from."""

    def __init__(self, audits: list[SessionAudit]) -> None:
        self.audits = audits
        self.index_of = {audit.session_id: index for index, audit in enumerate(audits)}
        self.current = 0
        self.starts = [Point(**{key: audit.session["start"][key] for key in Point._fields}) for audit in audits]
        self.ends = list(self.starts)
        # For each point that some session starts from: the first session that logged it.
        self.logged_by: dict[Point, int] = dict.fromkeys(self.starts, len(audits))

    def feed(self, record: dict[str, Any]) -> None:
        index = self.index_of.get(record["session_id"])
        if index is None:
            raise InvalidRun(f"session_id {shown(record['session_id'])} is not in {names.MANIFEST_FILE}")
        if index < self.current:
            earlier, later = shown(record["session_id"]), shown(self.audits[self.current].session_id)
            raise InvalidRun(f"a record of session {earlier} stands after one of the later session {later}")
        self.current = index
        audit = self.audits[index]
        audit.feed(record)
        point = _point(audit, record)
        if point is not None:
            self.ends[index] = point
            if point in self.logged_by:
                self.logged_by[point] = min(index, self.logged_by[point])

    def require_traced_starts(self) -> None:
        """Raise `InvalidRun` unless each later session starts where the first did or where an earlier one had been."""
        for index, start in enumerate(self.starts):
            if start != self.starts[0] and self.logged_by[start] >= index:
                raise InvalidRun(
                    f"session {shown(self.audits[index].session_id)} starts at step {start.step}, tokens"
                    f" {start.tokens}, skipped_updates {start.skipped_updates}, a point that no earlier session logged",
                    file=names.MANIFEST_FILE,
                )

    def totals(self) -> dict[str, int | float]:
        trained = self.ends[-1].tokens - self.starts[0].tokens
        logged = sum(end.tokens - start.tokens for start, end in zip(self.starts, self.ends, strict=True))
        return {
            "restarts": len(self.audits) - 1,
            "tokens_trained": trained,
            "tokens_lost": logged - trained,
            "wall_seconds": sum(audit.elapsed_seconds for audit in self.audits),
        }


def _point(audit: SessionAudit, record: dict[str, Any]) -> Point | None:
    """Return the point that a record stands for, pending attempts included, or None for events without one."""
    event = record["event"]
    if event in (names.TRAIN, names.SESSION_END):
        return Point(audit.step, audit.tokens, audit.skipped)
    if event in (names.CHECKPOINT, names.SESSION_INTERRUPTED):
        audit.require_total(record)
        pending = table(record, "pending")
        return Point(
            audit.step,
            audit.tokens + whole(pending, "tokens", "pending."),
            audit.skipped + whole(pending, "skipped_updates", "pending."),
        )
    return None
