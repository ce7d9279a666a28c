"""The outcome that the run leaves for its launcher: torchrun flattens exit codes, this file does not."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STATUS_FILE = "TRAINWRIGHT_STATUS_FILE"
"""Environment variable: where the run writes its outcome, atomically, as the last thing it does."""


@dataclass(frozen=True)
class Status:
    """How a run ended."""

    exit_code: int
    reason: str
    step: int | None
    """Successful updates; None where no training began."""


def read_status(path: Path) -> Status | None:
    """The status, or None where there is none or it is not one."""
    try:
        content: Any = json.loads(path.read_bytes())
        return Status(exit_code=int(content["exit_code"]), reason=str(content["reason"]), step=content["step"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
