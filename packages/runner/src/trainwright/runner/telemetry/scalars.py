"""An attempted update as scalars, under the tags of Megatron Bridge's TensorBoard files."""

from __future__ import annotations

from dataclasses import dataclass

from trainwright.runner.telemetry.window import Attempt

LOSS = "lm loss"
VALIDATION_LOSS = "lm loss validation"
GIGABYTE = 1e9
"""Bytes; the memory tags are decimal gigabytes, not GiB."""
TERA = 1e12


@dataclass(frozen=True)
class Sizes:
    """What is the same for every update of a session."""

    global_batch_size: int
    world_size: int

    def tflops_per_device(self, flops: float | None, seconds: float) -> float | None:
        """TFLOP/s of each device for so many operations of them all in so many seconds."""
        return None if flops is None else flops / seconds / self.world_size / TERA


def of_update(attempt: Attempt, memory: dict[str, int], sizes: Sizes) -> dict[str, float]:
    """The scalars of an applied update. `memory` holds the peak bytes of the logging rank since the update before."""
    tokens_per_second = attempt.tokens / attempt.seconds
    scalars = {
        LOSS: attempt.loss,
        "iteration-time": attempt.seconds,
        **_learning_rates(attempt.learning_rates),
        "grad-norm": attempt.grad_norm,
        "max_attention_logit": attempt.heads.max_logit if attempt.heads else None,
        "batch-size": sizes.global_batch_size,
        "loss-scale": attempt.loss_scale,
        "memory/mem-reserved-gigabytes": memory["reserved_bytes"] / GIGABYTE,
        "memory/mem-allocated-gigabytes": memory["allocated_bytes"] / GIGABYTE,
        "throughput/tflops/device": sizes.tflops_per_device(attempt.flops, attempt.seconds),
        "throughput/tokens_per_sec": tokens_per_second,
        "throughput/device/tokens_per_sec": tokens_per_second / sizes.world_size,
    }
    return _known(scalars)


def of_skip(attempt: Attempt, skipped_updates: int) -> dict[str, float]:
    """The scalars of a skipped update: what shows why, and the count over the run.

    Time and memory are left out, so that no reader takes the point for a finished update.
    """
    return _known(
        {
            LOSS: attempt.loss,
            "grad-norm": attempt.grad_norm,
            "loss-scale": attempt.loss_scale,
            "skipped-updates": skipped_updates,
        }
    )


def _learning_rates(rates: dict[str, float]) -> dict[str, float]:
    """`learning-rate` is the first group's; with several, each also has a tag of its own."""
    named = {f"learning-rate/{name}": rate for name, rate in rates.items()} if len(rates) > 1 else {}
    return {"learning-rate": next(iter(rates.values())), **named}


def _known(scalars: dict[str, float | None]) -> dict[str, float]:
    return {tag: float(value) for tag, value in scalars.items() if value is not None}
