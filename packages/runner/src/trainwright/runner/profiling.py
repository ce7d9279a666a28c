"""A PyTorch profiler trace of some updates."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.runner.failures import failing_as

if TYPE_CHECKING:
    from trainwright.recipes import ConfigContainer
    from trainwright.runner.telemetry import Telemetry


class Profiler:
    """Traces the updates after `profile_step_start` up to `profile_step_end`, on the ranks named."""

    def __init__(self, config: ConfigContainer, run_dir: Path, rank: int, telemetry: Telemetry | None) -> None:
        section = config.profiling
        self._wanted = section.use_pytorch_profiler and rank in section.profile_ranks
        self._first, self._last = section.profile_step_start, section.profile_step_end
        self._file = run_dir / "profile" / f"rank{rank}.trace.json"
        self._telemetry = telemetry
        self._profile: Any = None

    def before_update(self, step: int) -> None:
        """Start where `step` successful updates are done and the window begins."""
        if self._wanted and self._profile is None and self._first <= step < self._last:
            import torch

            started = time.perf_counter()
            self._profile = torch.profiler.profile()
            self._profile.start()
            self._spent(started)

    def after_update(self, step: int) -> None:
        """Stop and write the trace once the window's last update is done."""
        if self._profile is not None and step >= self._last:
            self.close()

    def close(self) -> None:
        """Write the trace of an open window.

        Raises:
            RunFailed: it cannot be written.
        """
        if self._profile is None:
            return
        started = time.perf_counter()
        with failing_as(f"the profile cannot be written to {self._file}"):
            self._profile.stop()
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._profile.export_chrome_trace(str(self._file))
        self._profile, self._wanted = None, False
        self._spent(started)

    def _spent(self, started: float) -> None:
        if self._telemetry:
            self._telemetry.profiled(time.perf_counter() - started)
