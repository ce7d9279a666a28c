"""The audit of one session: it is fed the session's records in order and keeps sums, never records."""

from typing import Any

from trainwright.metrics_audit import names
from trainwright.metrics_audit.refusal import InvalidRun
from trainwright.metrics_audit.values import MAX_NUMBER, misfit, number, number_or_null, shown, table, text, whole

_MISSING = object()


class SessionAudit:
    """Checks and sums one session. ``session`` is its checked entry of the manifest.

    Windows that start at or after ``after_step`` successful updates count for the steady rate.
    """

    def __init__(self, run_id: str, session: dict[str, Any], after_step: int) -> None:
        recipe, start = session["recipe"], session["start"]
        self.session = session
        self.session_id: str = session["session_id"]
        self.run_id = run_id
        self.after_step = after_step
        self.tokens_per_update = recipe["batch_size"] * recipe["seq_len"] * recipe["gradient_accumulation_steps"]
        self.qk_threshold = recipe["qk_clip_threshold"]
        self.start_step: int = start["step"]
        # Where the run stands after the records so far: the start plus the sums of the windows.
        self.step: int = start["step"]
        self.tokens: int = start["tokens"]
        self.skipped: int = start["skipped_updates"]
        self.windows = 0
        self.events = 0
        self.end_step: int | None = None
        self.first_loss: float | None = None
        self.last_loss: float | None = None
        self.grad_norm_max = 0.0
        self.nonfinite_grad_norms = 0
        self.clipped_updates = 0.0
        self.max_logit: float | None = None
        self.clipped_heads = 0
        self.observed_heads = 0
        self.steady_tokens = 0
        self.steady_seconds = 0.0
        self.wall_tokens_per_second: float = 0.0
        self.elapsed_seconds: float = 0.0
        self.profiled = False
        self.peak_allocated = 0
        self.peak_reserved = 0

    @property
    def updates(self) -> int:
        """Successful updates of the windows so far."""
        return self.step - self.start_step

    def feed(self, record: dict[str, Any]) -> None:
        """Take the session's next record. Raises `InvalidRun` without a place."""
        if self.end_step is not None:
            raise InvalidRun("a record stands after the session's session_end")
        event = self._common(record)
        if event == names.TRAIN:
            self._window(record)
        elif event == names.VAL:
            number(record, "loss", minimum=-MAX_NUMBER)
        elif event == names.SESSION_END:
            self._end(record)

    def _common(self, record: dict[str, Any]) -> str:
        event = text(record, "event")
        if record.get("run_id") != self.run_id:
            raise misfit(record, "run_id", "", f"the manifest's, {shown(self.run_id)}")
        number(record, "time")
        whole(record, "step")
        clock = table(record, "session")
        self.elapsed_seconds = number(clock, "elapsed_seconds", "session.")
        whole(clock, "tokens", "session.")
        self.wall_tokens_per_second = number(clock, "tokens_per_second", "session.")
        self.profiled = number(clock, "profiling_seconds", "session.") > 0
        memory = table(record, "memory")
        allocated = whole(memory, "allocated_bytes", "memory.")
        if allocated > self.peak_allocated:
            self.peak_allocated = allocated
        reserved = whole(memory, "reserved_bytes", "memory.")
        if reserved > self.peak_reserved:
            self.peak_reserved = reserved
        self.events += 1
        return event

    def _window(self, record: dict[str, Any]) -> None:
        # Where a value is fixed by others, its type and one comparison settle its range as well.
        updates = whole(record, "updates", minimum=1)
        skipped = whole(record, "skipped_updates")
        attempted = record.get("attempted_updates")
        if type(attempted) is not int or attempted != updates + skipped:
            raise misfit(record, "attempted_updates", "", f"updates + skipped_updates, {updates + skipped}")
        step = record["step"]
        if step != self.step + updates:
            raise misfit(
                record, "step", "", f"the previous step {self.step} + updates {updates}, {self.step + updates}"
            )
        tokens = record.get("tokens")
        if type(tokens) is not int or tokens != self.tokens_per_update * attempted:
            wanted = f"{self.tokens_per_update * attempted}, {attempted} attempted updates of {self.tokens_per_update}"
            raise misfit(record, "tokens", "", wanted)
        self.step = step
        self.tokens += tokens
        self.skipped += skipped
        self.require_total(record)
        seconds = number(record, "train_seconds")
        if not seconds:
            raise misfit(record, "train_seconds", "", "more than 0")
        if step - updates >= self.after_step:
            self.steady_tokens += tokens
            self.steady_seconds += seconds
        self.last_loss = number(record, "loss", minimum=-MAX_NUMBER)
        if not self.windows:
            self.first_loss = self.last_loss
        self.windows += 1
        self._gradients(record, updates)
        self._qk_clip(table(record, "qk_clip"))

    def _gradients(self, record: dict[str, Any], updates: int) -> None:
        rates = table(record, "learning_rates")
        if not rates:
            raise InvalidRun("learning_rates is empty; it must hold the rate of at least one optimizer group")
        for name in rates:
            number(rates, name, "learning_rates.")
        number(record, "grad_norm")
        norm_max = number(record, "grad_norm_max")
        if norm_max > self.grad_norm_max:
            self.grad_norm_max = norm_max
        self.nonfinite_grad_norms += whole(record, "nonfinite_grad_norms")
        clipped = number(record, "gradient_clipped_fraction")
        if clipped > 1:
            raise misfit(record, "gradient_clipped_fraction", "", "from 0 to 1")
        self.clipped_updates += clipped * updates

    def _qk_clip(self, qk_clip: dict[str, Any]) -> None:
        threshold = qk_clip.get("threshold", _MISSING)
        if threshold != self.qk_threshold or type(threshold) is bool:
            raise misfit(qk_clip, "threshold", "qk_clip.", f"{shown(self.qk_threshold)}, as in the session's recipe")
        max_logit = number_or_null(qk_clip, "max_logit", "qk_clip.")
        if max_logit is not None and (self.max_logit is None or max_logit > self.max_logit):
            self.max_logit = max_logit
        clipped = whole(qk_clip, "clipped_head_updates", "qk_clip.")
        observed = whole(qk_clip, "observed_head_updates", "qk_clip.")
        if clipped > observed:
            raise misfit(qk_clip, "clipped_head_updates", "qk_clip.", f"at most observed_head_updates, {observed}")
        self.clipped_heads += clipped
        self.observed_heads += observed

    def _end(self, record: dict[str, Any]) -> None:
        self.require_total(record)
        if record["step"] != self.step:
            raise misfit(record, "step", "", f"total.step, {self.step}")
        self.end_step = self.step

    def require_total(self, record: dict[str, Any]) -> None:
        """Raise `InvalidRun` unless the record's ``total`` is the session's start plus the windows so far."""
        total = table(record, "total")
        for key, so_far in (("step", self.step), ("tokens", self.tokens), ("skipped_updates", self.skipped)):
            value = total.get(key)
            if type(value) is not int or value != so_far:
                raise misfit(total, key, "total.", f"{so_far}, the session's start plus its windows")

    def summary(self, session_count: int) -> dict[str, Any]:
        """Return the session's summary. Raises `InvalidRun` when it has no window."""
        if not self.windows:
            raise InvalidRun(f"session {shown(self.session_id)} has no train record", file=names.METRICS_FILE)
        start = self.session["start"]
        return {
            "run_id": self.run_id,
            "session_id": self.session_id,
            "sessions": session_count,
            "start_step": self.start_step,
            "last_step": self.step,
            "completed": self.end_step is not None,
            "updates": self.updates,
            "tokens": self.tokens - start["tokens"],
            "skipped_updates": self.skipped - start["skipped_updates"],
            "recipe": self.session["recipe"],
            "hardware": self.session["hardware"],
            "optimizers": self.session["optimizers"],
            "first_loss": self.first_loss,
            "last_loss": self.last_loss,
            "gradient_norm_max": self.grad_norm_max,
            "nonfinite_gradient_norms": self.nonfinite_grad_norms,
            "gradient_clipped_fraction": self.clipped_updates / self.updates,
            "qk_clip": {
                "threshold": self.qk_threshold,
                "max_logit": self.max_logit,
                "clipped_fraction": self.clipped_heads / self.observed_heads if self.observed_heads else None,
            },
            "steady_train_tokens_per_second": self._steady_rate(),
            "session_wall_tokens_per_second": self.wall_tokens_per_second,
            "memory": {"peak_allocated_bytes": self.peak_allocated, "peak_reserved_bytes": self.peak_reserved},
            "profiled": self.profiled,
        }

    def _steady_rate(self) -> float | None:
        if not self.steady_seconds:
            return None
        rate = self.steady_tokens / self.steady_seconds
        if rate > MAX_NUMBER:
            raise InvalidRun("the train_seconds are too small for a finite rate", file=names.METRICS_FILE)
        return rate
