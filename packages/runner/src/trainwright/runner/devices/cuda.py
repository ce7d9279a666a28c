"""One NVIDIA GPU. Megatron Core runs as its authors wrote it: nothing of it, or of torch, is replaced."""

from __future__ import annotations

import os
from typing import Literal

import torch

from trainwright.runner.devices.seeding import seed_host
from trainwright.runner.errors import RunRefused


class CudaDevice:
    """The GPU that `LOCAL_RANK` names (torchrun and the Slurm start-up set it), else the first."""

    kind: Literal["cuda"] = "cuda"

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise RunRefused("no CUDA device is visible to this process; use --device cpu to run without one")
        index = int(os.environ.get("LOCAL_RANK", "0"))
        if index >= torch.cuda.device_count():
            raise RunRefused(
                f"local rank {index} has no GPU: {torch.cuda.device_count()} visible; start at most one rank per GPU"
            )
        torch.cuda.set_device(index)
        self.torch_device = torch.device("cuda", index)

    def memory(self) -> dict[str, int]:
        """Peak bytes of the caching allocator since the last call."""
        peak = {
            "allocated_bytes": torch.cuda.max_memory_allocated(),
            "reserved_bytes": torch.cuda.max_memory_reserved(),
        }
        torch.cuda.reset_peak_memory_stats()
        return peak

    def synchronize(self) -> None:
        """Wait for every stream of this GPU."""
        torch.cuda.synchronize()

    def seed(self, seed: int) -> None:
        """Seed Python, NumPy, torch and this GPU."""
        seed_host(seed)
        torch.manual_seed(seed)

    def prepare_save(self, *, asynchronous: bool) -> None:
        """Nothing: Megatron Core's own choice."""
