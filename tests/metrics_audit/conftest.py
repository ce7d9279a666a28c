"""One hand-made run that the audit accepts, small enough to be summed on paper."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RUN_ID = "run-a"
FIRST, LAST = "0001-aaaa", "0002-bbbb"
TOKENS_PER_UPDATE = 2 * 8 * 4


class HandMadeRun:
    """A manifest and records to change at will and then write; no code of the package takes part in making it."""

    def __init__(self) -> None:
        self.manifest = manifest()
        self.records = records()

    def lines(self) -> list[bytes]:
        return [json.dumps(record).encode() + b"\n" for record in self.records]

    def write(self, directory: Path, *, raw_log: bytes | None = None, raw_manifest: bytes | None = None) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.manifest).encode() if raw_manifest is None else raw_manifest
        (directory / "run.json").write_bytes(text)
        (directory / "metrics.jsonl").write_bytes(b"".join(self.lines()) if raw_log is None else raw_log)
        return directory


def session(session_id: str, start: tuple[int, int, int]) -> dict[str, Any]:
    step, tokens, skipped = start
    return {
        "session_id": session_id,
        "started_at": "2026-11-30T09:00:00Z",
        "start": {"step": step, "tokens": tokens, "skipped_updates": skipped},
        "recipe": {
            "name": "hand_made",
            "mode": "pretrain",
            "batch_size": 2,
            "seq_len": 8,
            "gradient_accumulation_steps": 4,
            "qk_clip_threshold": 50.0,
            "note": "a key more",
        },
        "hardware": {"device": "cpu", "world_size": 2, "nodes": 1},
        "optimizers": ["adam"],
    }


def manifest() -> dict[str, Any]:
    return {
        "schema_version": 1,
        "run_id": RUN_ID,
        "created_at": "2026-11-30T09:00:00Z",
        "sessions": [session(FIRST, (0, 0, 0)), session(LAST, (100, 102 * 64, 2))],
    }


def records() -> list[dict[str, Any]]:
    """Line 1 and 2: the first session. Lines 3 to 8: the last, of 25 updates in three windows."""
    first = {"run_id": RUN_ID, "session_id": FIRST}
    last = {"run_id": RUN_ID, "session_id": LAST}
    return [
        {**window(100, updates=100, skipped=2, total=(100, 6528, 2)), **first},
        {**event("checkpoint", 100), **checkpoint(100, 6528, 2), **first},
        {**window(110, updates=10, skipped=2, total=(110, 7296, 4)), **last, **FIRST_WINDOW},
        {**event("val", 110, allocated=900), "loss": 3.9, **last},
        {**window(120, updates=10, skipped=0, total=(120, 7936, 4)), **last, **SECOND_WINDOW},
        {**event("checkpoint", 120, reserved=1500), **checkpoint(120, 7936, 4), **last},
        {**window(125, updates=5, skipped=1, total=(125, 8320, 5)), **last, **THIRD_WINDOW},
        {**event("session_end", 125, rate=256.0, profiling=0.5), "total": point(125, 8320, 5), **last},
    ]


def qk_clip(max_logit: float | None, clipped: int, observed: int) -> dict[str, Any]:
    return {
        "threshold": 50.0,
        "max_logit": max_logit,
        "clipped_head_updates": clipped,
        "observed_head_updates": observed,
    }


FIRST_WINDOW: dict[str, Any] = {
    "train_seconds": 3.0,
    "loss": 4.0,
    "grad_norm": 1.0,
    "grad_norm_max": 2.5,
    "nonfinite_grad_norms": 2,
    "gradient_clipped_fraction": 0.3,
    "qk_clip": qk_clip(20.5, 1, 40),
}
SECOND_WINDOW: dict[str, Any] = {
    "train_seconds": 2.0,
    "loss": 3.0,
    "grad_norm": 1.0,
    "grad_norm_max": 1.5,
    "nonfinite_grad_norms": 0,
    "gradient_clipped_fraction": 0.1,
    "qk_clip": qk_clip(None, 0, 0),
}
THIRD_WINDOW: dict[str, Any] = {
    "train_seconds": 1.0,
    "loss": 2.5,
    "grad_norm": 1.0,
    "grad_norm_max": 2.0,
    "nonfinite_grad_norms": 1,
    "gradient_clipped_fraction": 0.2,
    "qk_clip": qk_clip(30.25, 3, 20),
}


def point(step: int, tokens: int, skipped: int) -> dict[str, int]:
    return {"step": step, "tokens": tokens, "skipped_updates": skipped}


def checkpoint(step: int, tokens: int, skipped: int) -> dict[str, Any]:
    return {
        "path": f"checkpoints/iter_{step:07d}",
        "seconds": 0.5,
        "total": point(step, tokens, skipped),
        "pending": {"skipped_updates": 0, "tokens": 0},
    }


def event(
    name: str, step: int, *, rate: float = 200.0, profiling: float = 0.0, allocated: int = 700, reserved: int = 1000
) -> dict[str, Any]:
    clock = {"elapsed_seconds": 7.0, "tokens": 1792, "tokens_per_second": rate, "profiling_seconds": profiling}
    return {
        "event": name,
        "time": 1796029200.5,
        "step": step,
        "session": clock,
        "memory": {"allocated_bytes": allocated, "reserved_bytes": reserved},
    }


def window(step: int, *, updates: int, skipped: int, total: tuple[int, int, int]) -> dict[str, Any]:
    return {
        **event("train", step),
        "updates": updates,
        "skipped_updates": skipped,
        "attempted_updates": updates + skipped,
        "tokens": (updates + skipped) * TOKENS_PER_UPDATE,
        "train_seconds": 9.0,
        "loss": 5.0,
        "learning_rates": {"default": 0.001},
        "grad_norm": 1.0,
        "grad_norm_max": 1.0,
        "nonfinite_grad_norms": 0,
        "gradient_clipped_fraction": 0.0,
        "qk_clip": qk_clip(None, 0, 0),
        "total": point(*total),
    }


@pytest.fixture
def run() -> HandMadeRun:
    """The hand-made run, a fresh copy."""
    return copy.deepcopy(HandMadeRun())


@pytest.fixture
def fields() -> Callable[[str, int, int], dict[str, Any]]:
    """A function of (event, step, updates of this window): what a training loop gives `SessionLog.write`."""

    def given(name: str, step: int, updates: int = 1) -> dict[str, Any]:
        total = (step, step * TOKENS_PER_UPDATE, 0)
        made = window(step, updates=updates, skipped=0, total=total) if name == "train" else event(name, step)
        made |= {"val": {"loss": 1.0}, "checkpoint": checkpoint(*total), "session_end": {"total": point(*total)}}.get(
            name, {}
        )
        return {key: value for key, value in made.items() if key not in ("event", "time", "step")}

    return given


@pytest.fixture
def start_of() -> Callable[[int], dict[str, Any]]:
    """A function of a step: the arguments of `SessionLog.start_session` for a session that starts there."""

    def arguments(step: int) -> dict[str, Any]:
        entry = session("", (step, step * TOKENS_PER_UPDATE, 0))
        return {key: entry[key] for key in ("start", "recipe", "hardware", "optimizers")}

    return arguments
