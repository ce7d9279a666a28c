"""The audit of one session: it is fed the session's records in order and keeps sums, never records."""

from typing import Any

from trainwright.metrics_audit import names
from trainwright.metrics_audit.refusal import InvalidRun
from trainwright.metrics_audit.values import MAX_NUMBER, any_number, number, number_or_null, shown, table, text, whole


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
            any_number(record, "loss", "loss")
        elif event == names.SESSION_END:
            self._end(record)

    def _common(self, record: dict[str, Any]) -> str:
        event = text(record, "event", "event")
        run_id = text(record, "run_id", "run_id")
        if run_id != self.run_id:
            raise InvalidRun(f"run_id is {shown(run_id)}, but the manifest's is {shown(self.run_id)}")
        number(record, "time", "time")
        whole(record, "step", "step")
        clock = table(record, "session", "session")
        self.elapsed_seconds = number(clock, "elapsed_seconds", "session.elapsed_seconds")
        whole(clock, "tokens", "session.tokens")
        self.wall_tokens_per_second = number(clock, "tokens_per_second", "session.tokens_per_second")
        self.profiled = number(clock, "profiling_seconds", "session.profiling_seconds") > 0
        memory = table(record, "memory", "memory")
        allocated = whole(memory, "allocated_bytes", "memory.allocated_bytes")
        if allocated > self.peak_allocated:
            self.peak_allocated = allocated
        reserved = whole(memory, "reserved_bytes", "memory.reserved_bytes")
        if reserved > self.peak_reserved:
            self.peak_reserved = reserved
        self.events += 1
        return event

    def _window(self, record: dict[str, Any]) -> None:
        step = record["step"]
        updates = whole(record, "updates", "updates", 1)
        skipped = whole(record, "skipped_updates", "skipped_updates")
        attempted = whole(record, "attempted_updates", "attempted_updates")
        if attempted != updates + skipped:
            raise InvalidRun(f"attempted_updates is {attempted}, but updates + skipped_updates is {updates + skipped}")
        if step != self.step + updates:
            raise InvalidRun(f"step is {step}, but the previous step {self.step} + updates {updates} is not")
        tokens = whole(record, "tokens", "tokens")
        if tokens != self.tokens_per_update * attempted:
            raise InvalidRun(
                f"tokens is {tokens}, but {attempted} attempted updates of {self.tokens_per_update} tokens"
                f" are {self.tokens_per_update * attempted}"
            )
        self.step = step
        self.tokens += tokens
        self.skipped += skipped
        self._require_total(record)
        seconds = number(record, "train_seconds", "train_seconds")
        if not seconds:
            raise InvalidRun("train_seconds is 0; it must be more than 0")
        if step - updates >= self.after_step:
            self.steady_tokens += tokens
            self.steady_seconds += seconds
        self.last_loss = any_number(record, "loss", "loss")
        if not self.windows:
            self.first_loss = self.last_loss
        self.windows += 1
        self._gradients(record, updates)
        self._qk_clip(table(record, "qk_clip", "qk_clip"))

    def _gradients(self, record: dict[str, Any], updates: int) -> None:
        rates = table(record, "learning_rates", "learning_rates")
        if not rates:
            raise InvalidRun("learning_rates is empty; it must hold at least one rate")
        for name in rates:
            number(rates, name, "a rate of learning_rates")
        number(record, "grad_norm", "grad_norm")
        norm_max = number(record, "grad_norm_max", "grad_norm_max")
        if norm_max > self.grad_norm_max or self.windows == 1:
            self.grad_norm_max = norm_max
        self.nonfinite_grad_norms += whole(record, "nonfinite_grad_norms", "nonfinite_grad_norms")
        clipped = number(record, "gradient_clipped_fraction", "gradient_clipped_fraction")
        if clipped > 1:
            raise InvalidRun(f"gradient_clipped_fraction is {shown(clipped)}; it must be from 0 to 1")
        self.clipped_updates += clipped * updates

    def _qk_clip(self, qk_clip: dict[str, Any]) -> None:
        threshold = number_or_null(qk_clip, "threshold", "qk_clip.threshold")
        if threshold != self.qk_threshold:
            raise InvalidRun(
                f"qk_clip.threshold is {shown(threshold)}, but the session's recipe says {shown(self.qk_threshold)}"
            )
        max_logit = number_or_null(qk_clip, "max_logit", "qk_clip.max_logit")
        if max_logit is not None and (self.max_logit is None or max_logit > self.max_logit):
            self.max_logit = max_logit
        clipped = whole(qk_clip, "clipped_head_updates", "qk_clip.clipped_head_updates")
        observed = whole(qk_clip, "observed_head_updates", "qk_clip.observed_head_updates")
        if clipped > observed:
            raise InvalidRun(f"qk_clip.clipped_head_updates is {clipped}, more than the {observed} observed")
        self.clipped_heads += clipped
        self.observed_heads += observed

    def _end(self, record: dict[str, Any]) -> None:
        self._require_total(record)
        if record["step"] != self.step:
            raise InvalidRun(f"step is {record['step']}, but total.step is {self.step}")
        self.end_step = self.step

    def _require_total(self, record: dict[str, Any]) -> None:
        total = table(record, "total", "total")
        step = whole(total, "step", "total.step")
        tokens = whole(total, "tokens", "total.tokens")
        skipped = whole(total, "skipped_updates", "total.skipped_updates")
        if step != self.step or tokens != self.tokens or skipped != self.skipped:
            raise InvalidRun(
                f"total is step {step}, tokens {tokens}, skipped_updates {skipped}, but the session's start plus its"
                f" windows give step {self.step}, tokens {self.tokens}, skipped_updates {self.skipped}"
            )

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
