"""The device a run computes on: chosen once, before Megatron Core is imported.

Only `trainwright.runner.devices.cpu` knows how Megatron Core is made to run without CUDA.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import torch

DeviceKind = Literal["cpu", "cuda"]


class Device(Protocol):
    """What the runner asks of a device."""

    @property
    def kind(self) -> DeviceKind:
        """Which one it is."""
        ...

    @property
    def torch_device(self) -> torch.device:
        """Where this rank's tensors live."""
        ...

    def memory(self) -> dict[str, int]:
        """`allocated_bytes` and `reserved_bytes`: the highest of each since the last call."""
        ...

    def synchronize(self) -> None:
        """Wait until everything issued to the device is done."""
        ...

    def seed(self, seed: int) -> None:
        """Seed Python, NumPy and torch alike; parallel random streams are seeded from it by Megatron Core."""
        ...

    def prepare_save(self, *, asynchronous: bool) -> None:
        """To be called before each `dist_checkpointing.save`."""
        ...


_chosen: Device | None = None


def use_device(kind: DeviceKind) -> Device:
    """Choose the device of this process; repeating the choice returns the same device.

    Call it before anything of Megatron Core runs.

    Raises:
        RunRefused: this process has no such device.
        RuntimeError: another device is already chosen; what choosing the CPU changes in Megatron Core is not undone.
    """
    global _chosen
    if _chosen is None:
        _chosen = _build(kind)
    if _chosen.kind != kind:
        raise RuntimeError(f"this process already runs on {_chosen.kind}; it cannot also run on {kind}")
    return _chosen


def chosen_device() -> Device:
    """The device that `use_device` chose. Raises `RuntimeError` before that."""
    if _chosen is None:
        raise RuntimeError("no device is chosen yet: call use_device first")
    return _chosen


def _build(kind: DeviceKind) -> Device:
    if kind == "cpu":
        from trainwright.runner.devices.cpu import CpuDevice

        return CpuDevice()
    from trainwright.runner.devices.cuda import CudaDevice

    return CudaDevice()
