"""What a session counts: attempted updates, the window of the session log that they fall in, and points of the run."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainwright.runner.optim.qk_clip import ObservedHeads


@dataclass(frozen=True)
class Attempt:
    """One attempted update, already reduced over ranks."""

    loss: float | None
    """Mean over the supervised tokens of the global batch, in nats; of a skipped update maybe null or not finite."""
    grad_norm: float | None
    """Of the whole gradient before clipping; may be infinite or NaN, null when it was not computed."""
    applied: bool
    """False: the update was skipped, and the step stays where it was."""
    clipped: bool
    tokens: int
    """Nominal positions, padding included: global batch size * length of a row."""
    supervised_tokens: int
    seconds: float
    """Of this training step alone."""
    learning_rates: dict[str, float]
    """One rate for each kind of parameter group."""
    loss_scale: float | None = None
    flops: float | None = None
    """Floating point operations over all devices; null where no formula is known."""
    heads: ObservedHeads | None = None
    """Attention's heads in an applied update; null where nobody watches their logits."""


@dataclass
class Totals:
    """A point of the run: what was done from its very first update up to here."""

    step: int
    """Successful updates."""
    tokens: int
    """Nominal positions of all attempted updates."""
    skipped_updates: int


@dataclass(frozen=True)
class Pending:
    """Attempts since the last window that no window holds yet: skips only, as taking a point ends a window."""

    skipped_updates: int
    tokens: int


@dataclass(frozen=True)
class Snapshot:
    """A point of the run as the session log has it: the start plus all windows, and what no window holds yet."""

    total: Totals
    pending: Pending

    @property
    def point(self) -> Totals:
        """Both together: where a session starts that restores a checkpoint of this point."""
        total, pending = self.total, self.pending
        return Totals(total.step, total.tokens + pending.tokens, total.skipped_updates + pending.skipped_updates)

    def fields(self) -> dict[str, Any]:
        """As the session log writes it."""
        return {"total": asdict(self.total), "pending": asdict(self.pending)}


@dataclass
class Window:
    """The attempts since the last `train` record."""

    updates: int = 0
    skipped_updates: int = 0
    tokens: int = 0
    supervised_tokens: int = 0
    seconds: float = 0.0
    flops: float | None = 0.0
    clipped: int = 0
    nonfinite_norms: int = 0
    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    learning_rates: dict[str, float] = field(default_factory=dict)
    heads: list[ObservedHeads] = field(default_factory=list)
    """Of successful updates in which logits were watched."""

    def add(self, attempt: Attempt) -> None:
        """Count one attempt.

        Raises:
            ValueError: it cannot be true: an applied update without a finite loss or a rate, or no time spent.
        """
        _require_sound(attempt)
        self.tokens += attempt.tokens
        self.supervised_tokens += attempt.supervised_tokens
        self.seconds += attempt.seconds
        self.flops = None if self.flops is None or attempt.flops is None else self.flops + attempt.flops
        if attempt.grad_norm is not None:
            if math.isfinite(attempt.grad_norm):
                self.norms.append(attempt.grad_norm)
            else:
                self.nonfinite_norms += 1
        if not attempt.applied:
            self.skipped_updates += 1
            return
        self.updates += 1
        self.clipped += attempt.clipped
        self.losses.append(float(attempt.loss))  # type: ignore[arg-type]  # checked above
        self.learning_rates = attempt.learning_rates
        if attempt.heads is not None:
            self.heads.append(attempt.heads)

    @property
    def loss(self) -> float:
        """Mean over the window's successful updates, of which there must be one."""
        return _mean(self.losses)

    @property
    def grad_norm(self) -> float:
        """Mean of the finite norms of all attempts; 0 where none was finite, which `nonfinite_norms` tells apart."""
        return _mean(self.norms) if self.norms else 0.0

    @property
    def pending(self) -> Pending:
        """What of this window a point of the run must add to the windows before it."""
        return Pending(self.skipped_updates, self.tokens)

    def fields(self, qk_clip_threshold: float | None) -> dict[str, Any]:
        """The window's own keys of a `train` record; it must hold a successful update."""
        return {
            "updates": self.updates,
            "skipped_updates": self.skipped_updates,
            "attempted_updates": self.updates + self.skipped_updates,
            "tokens": self.tokens,
            "supervised_tokens": self.supervised_tokens,
            "train_seconds": self.seconds,
            "loss": self.loss,
            "learning_rates": self.learning_rates,
            "grad_norm": self.grad_norm,
            "grad_norm_max": max(self.norms, default=0.0),
            "nonfinite_grad_norms": self.nonfinite_norms,
            "gradient_clipped_fraction": self.clipped / self.updates,
            "qk_clip": {
                "threshold": qk_clip_threshold,
                "max_logit": max(
                    (heads.max_logit for heads in self.heads if heads.max_logit is not None), default=None
                ),
                "clipped_head_updates": sum(each.clipped for each in self.heads),
                "observed_head_updates": sum(each.observed for each in self.heads),
            },
        }


def _require_sound(attempt: Attempt) -> None:
    if not 0 < attempt.seconds < math.inf:
        raise ValueError(f"an attempted update took {attempt.seconds} seconds")
    if attempt.applied and (attempt.loss is None or not math.isfinite(attempt.loss)):
        raise ValueError(f"an update with the loss {attempt.loss} was applied")
    if attempt.applied and not attempt.learning_rates:
        raise ValueError("an update was applied without a learning rate")


def _mean(values: list[float]) -> float:
    # Divided before they are summed: the sum of finite values need not be finite, their mean is.
    return math.fsum(value / len(values) for value in values)
