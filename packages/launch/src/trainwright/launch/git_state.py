"""What git says of the directory that a run was launched from."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_TIMEOUT_SECONDS = 20
"""A checkout on a slow file system must not hold up a submission."""


@dataclass(frozen=True)
class GitState:
    """A commit, and what differs from it."""

    commit: str | None
    """None before the first commit."""
    branch: str | None
    """None where HEAD is detached."""
    dirty: tuple[str, ...]
    """Files that are changed, added or not tracked, from the checkout's top; a new directory counts once."""


def git_state(directory: Path) -> GitState | None:
    """The state of the checkout that `directory` lies in; None where it lies in none, or git cannot say."""
    # --no-optional-locks: looking must not write to the index.
    command = ["git", "--no-optional-locks", "-C", str(directory), "status", "--porcelain=v2", "--branch", "-z"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_TIMEOUT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return _parse([os.fsdecode(entry) for entry in done.stdout.split(b"\0") if entry])


def _parse(entries: list[str]) -> GitState:
    """Entries of `git status --porcelain=v2 --branch -z`: headers, then one a file and, for a rename, its old name."""
    headers: dict[str, str] = {}
    dirty: list[str] = []
    remaining = iter(entries)
    for entry in remaining:
        kind, _, rest = entry.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            headers[name] = value
        elif kind in _FIELDS_BEFORE_PATH:
            dirty.append(rest.split(" ", _FIELDS_BEFORE_PATH[kind])[-1])
            if kind == "2":
                next(remaining)
    commit, branch = headers.get("branch.oid"), headers.get("branch.head")
    return GitState(
        commit=None if commit == "(initial)" else commit,
        branch=None if branch == "(detached)" else branch,
        dirty=tuple(dirty),
    )


_FIELDS_BEFORE_PATH = {"1": 7, "2": 8, "u": 9, "?": 0}
"""Kind of entry (changed, renamed, unmerged, not tracked) to the fields before its path."""
