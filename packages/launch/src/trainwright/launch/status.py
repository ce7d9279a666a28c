"""The status that a run leaves in its run directory: torchrun flattens exit codes, this file does not."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Status:
    """How the last process that trained in a run directory ended."""

    exit_code: int
    reason: str
    step: int | None
    """Successful updates; None where no training began."""


def status_path(run_dir: Path) -> Path:
    """Where the runner writes its status, atomically, as the last thing it does."""
    return run_dir / "status.json"


def version(run_dir: Path) -> tuple[int, int] | None:
    """Something that changes whenever the status is written anew; None where there is none yet."""
    try:
        found = status_path(run_dir).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def read_status(run_dir: Path) -> Status | None:
    """The status, or None where there is none or it is not one."""
    try:
        content: Any = json.loads(status_path(run_dir).read_bytes())
        return Status(exit_code=int(content["exit_code"]), reason=str(content["reason"]), step=content["step"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
