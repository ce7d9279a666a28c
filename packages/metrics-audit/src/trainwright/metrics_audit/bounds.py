"""Bounds that a CI job may put on a summary."""

from typing import Any, NamedTuple


class Bounds(NamedTuple):
    """What a summary must keep to; None asks nothing."""

    min_tokens_per_second: float | None = None
    max_loss: float | None = None
    max_skipped_fraction: float | None = None
    max_clipped_fraction: float | None = None


class Check(NamedTuple):
    """One bound and what came of it; ``fault`` is a sentence with the measured value and the bound, or None."""

    flag: str
    fault: str | None


def check(summary: dict[str, Any], bounds: Bounds) -> list[Check]:
    """Hold one session's summary against the bounds that are set, in their order."""
    attempted = summary["updates"] + summary["skipped_updates"]
    measured = {
        "min_tokens_per_second": ("the steady rate in tokens/s", summary["steady_train_tokens_per_second"]),
        "max_loss": ("the last loss", summary["last_loss"]),
        "max_skipped_fraction": ("the fraction of skipped updates", summary["skipped_updates"] / attempted),
        "max_clipped_fraction": ("the fraction of clipped updates", summary["gradient_clipped_fraction"]),
    }
    return [_check(name, bound, *measured[name]) for name, bound in bounds._asdict().items() if bound is not None]


def _check(name: str, bound: float, quantity: str, value: float | None) -> Check:
    flag = "--" + name.replace("_", "-")
    least = name.startswith("min_")
    if value is None:
        fault = f"{quantity} is not measured: no window starts at or after the warm-up step ({flag} {bound:g})"
    elif least and value < bound:
        fault = f"{quantity} is {value:.6g}, less than {bound:.6g} ({flag})"
    elif not least and value > bound:
        fault = f"{quantity} is {value:.6g}, more than {bound:.6g} ({flag})"
    else:
        fault = None
    return Check(flag, fault)
