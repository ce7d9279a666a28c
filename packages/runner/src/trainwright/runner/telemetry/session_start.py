"""Entering a session: its place in `run.json`, and `environment.json`."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trainwright.recipes import catalogue
from trainwright.runner.telemetry import environment

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.metrics_audit.writer import SessionLog
    from trainwright.recipes import ConfigContainer, ResolvedRun
    from trainwright.runner.devices import Device
    from trainwright.runner.telemetry.window import Totals


OPTIMIZERS = {"muon": ["muon", "adam"], "dist_muon": ["muon", "adam"]}
"""What trains beside what, where one name stands for two."""


def qk_clip_threshold(config: ConfigContainer) -> float | None:
    """Above which an attention head's logits are clipped; null where none are."""
    extra = config.model.model_extra or {}
    return (
        float(extra.get("qk_clip_threshold", catalogue.default("qk_clip_threshold"))) if extra.get("qk_clip") else None
    )


def start_session(
    log: SessionLog,
    resolved: ResolvedRun,
    run_dir: Path,
    *,
    start: Totals,
    device: Device,
    adapters: Mapping[str, Any] | None = None,
) -> None:
    """Append a session to the log, and describe what it runs on; `adapters` is what an adapter run says of itself.

    Raises:
        SessionLogError, OSError: a file cannot be written.
    """
    from trainwright.recipes.packing import row_length

    config = resolved.config
    described = environment.describe_device(device)
    session_id = log.start_session(
        start=asdict(start),
        recipe={
            "name": resolved.recipe,
            "mode": resolved.mode,
            "batch_size": config.train.micro_batch_size * resolved.data_parallel_size,
            "seq_len": row_length(config),
            "gradient_accumulation_steps": resolved.num_microbatches,
            "qk_clip_threshold": qk_clip_threshold(config),
            "canonical": resolved.canonical,
            "canonical_differences": list(resolved.canonical_differences),
            **({"adapters": dict(adapters)} if adapters is not None else {}),
        },
        hardware={
            "device": resolved.device,
            "world_size": resolved.world_size,
            "nodes": environment.num_nodes(resolved.world_size),
            "name": described["name"],
            "host": socket.gethostname(),
        },
        optimizers=OPTIMIZERS.get(config.optimizer.optimizer, [config.optimizer.optimizer]),
    )
    description = environment.describe(resolved, described, run_dir, run_id=log.run_id, session_id=session_id)
    environment.write(run_dir, description)
