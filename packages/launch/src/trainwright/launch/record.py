"""`launch.json` in the run directory: what was launched, by which words, from what state of the sources."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from trainwright.launch.errors import LaunchError
from trainwright.launch.git_state import git_state
from trainwright.launch.settings import Settings

RECORD = "launch.json"


def content(executor: str, words: tuple[str, ...], *, cwd: Path, settings: Settings | None = None) -> dict[str, Any]:
    """What every launch says of itself. Variables that are forwarded stand with their names, never with a value."""
    state = git_state(cwd)
    return {
        "executor": executor,
        "words": list(words),
        "settings": {} if settings is None else _settings(settings),
        "git": None if state is None else asdict(state),
        "cwd": str(cwd),
        "launched_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "launcher": _version(),
    }


def write_record(run_dir: Path, record: Mapping[str, Any]) -> Callable[[], None]:
    """Write `record` into `run_dir`, which is made; returns what undoes both, for a run that never began.

    Raises `LaunchError` where the directory cannot be written, and leaves nothing behind then.
    """
    is_new = not run_dir.exists()
    remove = remover(run_dir)
    target = run_dir / RECORD
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        previous = target.read_bytes() if target.exists() else None
        _replace(target, record)
    except OSError as error:
        if is_new:
            remove()
        raise LaunchError(f"{run_dir}: cannot write the run directory: {error.strerror}") from error

    def take_back() -> None:
        if is_new and not (run_dir / "run.json").exists():
            remove()
        elif previous is None:
            target.unlink(missing_ok=True)
        else:
            target.write_bytes(previous)

    return take_back


def remover(directory: Path) -> Callable[[], None]:
    """What removes `directory`, which is about to be made, and those above it that are not there now and stay empty."""
    missing = [path for path in directory.parents if not path.exists()]

    def remove() -> None:
        shutil.rmtree(directory, ignore_errors=True)
        for path in missing:
            with suppress(OSError):
                path.rmdir()

    return remove


def add_to_record(run_dir: Path, more: Mapping[str, Any]) -> None:
    """Put more keys into the record that is there. Raises `OSError`."""
    target = run_dir / RECORD
    _replace(target, {**json.loads(target.read_bytes()), **more})


def _replace(target: Path, record: Mapping[str, Any]) -> None:
    """All or nothing: the run may read it at any time. A byte of a word that is no UTF-8 is kept as `\\udcXX`."""
    beside = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        beside.write_text(json.dumps(record, indent=2) + "\n", encoding="ascii")
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


def _settings(settings: Settings) -> dict[str, dict[str, Any]]:
    """Every option with its value and where that came from."""
    return {
        one.name: {"value": _plain(getattr(settings, one.name)), "origin": settings.origins.get(one.name, "default")}
        for one in fields(settings)
        if one.name not in ("origins", "notes")
    }


def _plain(value: Any) -> Any:
    """As JSON has it; a mount stands as it is typed."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def _version() -> str | None:
    try:
        return version("trainwright-launch")
    except PackageNotFoundError:
        return None
