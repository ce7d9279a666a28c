"""The CPU as a device of Megatron Core.

Megatron Core 0.19 names `torch.cuda` in some hundred places. Choosing the CPU gives its modules a *view* of torch
(`view`) in which those names answer for the CPU (`cuda_names`), also in modules that are imported later (`rebinding`).
`torch` itself, and `torch.cuda`, stay as they are, so the choice also holds on a machine that has GPUs.
Two names have no module to scope them to, the methods `Tensor.cuda` and `Tensor.type`; they are wrapped on the class
and change their answer for callers inside Megatron Core only (`tensor_methods`).
Where Megatron Core needs Apex or Transformer Engine for something that must work here, `replacements` lists what it
gets in their place.
"""

from trainwright.runner.devices.cpu.device import CpuDevice

__all__ = ["CpuDevice"]
