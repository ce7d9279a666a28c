"""`CpuDevice`: this process's memory, generators and (absent) queues."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

from trainwright.runner.devices.cpu.rebinding import bind_megatron
from trainwright.runner.devices.cpu.results_queue import use_results_queue
from trainwright.runner.devices.seeding import seed_host


class CpuDevice:
    """The cores of this machine. Making one binds Megatron Core to the CPU for the rest of the process."""

    kind: Literal["cpu"] = "cpu"

    def __init__(self) -> None:
        self.torch_device = torch.device("cpu")
        bind_megatron()

    def memory(self) -> dict[str, int]:
        """Peak resident set since the last call, in bytes. There is no pool, so both numbers are the same."""
        peak = _peak_resident_bytes()
        return {"allocated_bytes": peak, "reserved_bytes": peak}

    def synchronize(self) -> None:
        """Nothing is queued on a CPU: every call has already returned its result."""

    def seed(self, seed: int) -> None:
        """Seed Python, NumPy and torch's CPU generator."""
        seed_host(seed)
        torch.default_generator.manual_seed(seed)

    def prepare_save(self, *, asynchronous: bool) -> None:
        """Give the next checkpoint's writers a queue that suits them."""
        use_results_queue(asynchronous=asynchronous)


def _peak_resident_bytes() -> int:
    """Linux keeps a peak that a process may reset for itself; elsewhere the present size is the best there is."""
    try:
        status = Path("/proc/self/status").read_text()
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, StopIteration):
        import psutil

        return int(psutil.Process().memory_info().rss)
    return int(peak.split()[1]) * 1024
