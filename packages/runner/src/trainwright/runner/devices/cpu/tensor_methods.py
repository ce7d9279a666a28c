"""The two methods that cannot be scoped to a module, and are scoped to their caller instead.

`Tensor.cuda` and `Tensor.type` belong to the class that all code shares. Both are wrapped once; a caller outside
Megatron Core gets torch's own answer.
"""

from __future__ import annotations

import sys
from typing import Any

import torch


def _caller_is_in(package: str) -> bool:
    # Frame 0 is here, 1 the wrapper, 2 its caller.
    name = str(sys._getframe(2).f_globals.get("__name__", ""))
    return name == package or name.startswith(package + ".")


def wrap_tensor_methods() -> None:
    """Wrap `Tensor.cuda` (Megatron Core: the tensor itself) and `Tensor.type` (its optimizers: the CUDA type's name).

    Megatron Core's optimizers sort parameters and check gradients by names such as `torch.cuda.FloatTensor`.
    """
    torch_cuda, torch_type = torch.Tensor.cuda, torch.Tensor.type

    def cuda(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return self if _caller_is_in("megatron.core") else torch_cuda(self, *args, **kwargs)

    def type_(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        answer = torch_type(self, *args, **kwargs)
        if isinstance(answer, str) and _caller_is_in("megatron.core.optimizer"):
            return answer.replace("torch.", "torch.cuda.", 1)
        return answer

    cuda.__doc__, type_.__doc__ = torch_cuda.__doc__, torch_type.__doc__
    torch.Tensor.cuda = cuda  # type: ignore[method-assign,assignment]
    torch.Tensor.type = type_  # type: ignore[method-assign,assignment]
