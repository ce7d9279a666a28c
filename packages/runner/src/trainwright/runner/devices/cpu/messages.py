"""Import messages of Megatron Core and torch that say nothing new on a CPU."""

from __future__ import annotations

import logging
import warnings

MESSAGES = (
    # Each names a GPU package that a CPU has no use for; what is used instead is this package's own choice.
    r"Transformer Engine and Apex are not installed\. Falling back to",
    r"Apex is not installed\. Falling back to Torch Norm",
)


def silence_import_messages() -> None:
    """Filter the warnings above, from Megatron Core only, and torch's remark that there is no CUDA runtime.

    The remark is logged when `torch.utils.cpp_extension` is imported, which Megatron Core does for an extension that
    is not used here. Everything else these loggers and modules say is let through.
    """
    for message in MESSAGES:
        warnings.filterwarnings("ignore", message=message, category=UserWarning, module=r"megatron\.core\.")
    logging.getLogger("torch.utils.cpp_extension").addFilter(_is_not_about_missing_cuda)


def _is_not_about_missing_cuda(record: logging.LogRecord) -> bool:
    return "No CUDA runtime is found" not in record.getMessage()
