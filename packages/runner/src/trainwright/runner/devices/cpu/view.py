"""The view of torch that Megatron Core's modules get when the device is the CPU."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import torch

from trainwright.runner.devices.cpu import cuda_names

FACTORIES = (
    "arange", "as_tensor", "empty", "empty_like", "eye", "full", "full_like", "linspace", "ones", "ones_like",
    "rand", "randint", "randn", "randperm", "tensor", "zeros", "zeros_like",
)  # fmt: skip
"""Makers of tensors that Megatron Core calls with `device="cuda"` or `pin_memory=True` written out."""


def _names_cuda(device: Any) -> bool:
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return isinstance(device, int) or (isinstance(device, str) and device.startswith("cuda"))


def _on_cpu(factory: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(factory)
    def make(*args: Any, **kwargs: Any) -> torch.Tensor:
        if "device" in kwargs and _names_cuda(kwargs["device"]):
            kwargs["device"] = "cpu"
        kwargs.pop("pin_memory", None)  # pinning speeds up copies to a GPU, and fails without one
        return factory(*args, **kwargs)

    return make


class TorchView(types.ModuleType):
    """torch, but for `cuda` and the factories: every other name is looked up in torch at each use."""

    def __init__(self) -> None:
        super().__init__("torch", "torch as Megatron Core sees it on the CPU")
        self.cuda = cuda_names
        for name in FACTORIES:
            setattr(self, name, _on_cpu(getattr(torch, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


VIEW = TorchView()
