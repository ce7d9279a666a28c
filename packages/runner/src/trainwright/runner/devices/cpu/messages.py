"""Messages of Megatron Core and torch that mean nothing on a CPU."""

from __future__ import annotations

import logging
import warnings

MESSAGES = (
    # Each names a GPU package that a CPU has no use for; what is used instead is this package's own choice.
    (r"Transformer Engine and Apex are not installed\. Falling back to", r"megatron\.core\."),
    (r"Apex is not installed\. Falling back to Torch Norm", r"megatron\.core\."),
    # Said of a class that is imported for a check of types and not used.
    (r"MimoModelConfig is experimental", r"megatron\.core\.models\.mimo\."),
    # Said by every configuration, of its own default.
    (r"full scope is deprecated\. Use empty cuda_graph_modules", r"megatron\.core\.transformer\."),
    # Advice about CUDA streams.
    (r"When using .* it is recommended to set the environment variable CUDA_", r"megatron\.core\."),
    # The distributed optimizer asks its shards, which are views, whether they have a gradient: they are given one.
    (r"The \.grad attribute of a Tensor that is not a leaf Tensor is being accessed", r"megatron\.core\.optimizer\."),
)
"""Warnings, and the modules from which they are dropped."""


def silence_messages() -> None:
    """Drop the warnings above, each from its own modules only, and torch's remark that there is no CUDA runtime.

    The remark is logged when `torch.utils.cpp_extension` is imported, which Megatron Core does for an extension that
    is not used here. Everything else these loggers and modules say is let through.
    """
    for message, module in MESSAGES:
        warnings.filterwarnings("ignore", message=message, category=UserWarning, module=module)
    # Said once, when the module is first compiled; Python then takes the file's path for the module's name.
    warnings.filterwarnings("ignore", message="invalid escape", category=SyntaxWarning, module=r".*/megatron/core/")
    logging.getLogger("torch.utils.cpp_extension").addFilter(_is_not_about_missing_cuda)


def _is_not_about_missing_cuda(record: logging.LogRecord) -> bool:
    return "No CUDA runtime is found" not in record.getMessage()
