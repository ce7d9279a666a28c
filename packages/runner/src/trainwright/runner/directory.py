"""The run directory: made, found again, or refused."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.recipes import ConfigError, from_yaml, shaping_differences, to_yaml
from trainwright.runner.errors import RunRefused

if TYPE_CHECKING:
    from trainwright.recipes import ConfigContainer, ResolvedRun

CONFIG = Path("configs") / "ConfigContainer.yaml"
STATUS = "status.json"
MADE_AT_START = ("configs", "tb_logs", "wandb", "environment.json")


def default_run_dir(resolved: ResolvedRun) -> Path:
    """`runs/<recipe>-<time>-<id>` below the working directory."""
    stem = resolved.recipe.removesuffix("_config")
    return Path("runs") / f"{stem}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


def locate(resolved: ResolvedRun, run_dir: Path | None) -> Path:
    """The run directory that the user named, by `--run-dir` or `logger.run_dir`, or a fresh default."""
    if run_dir is None and resolved.config.logger.run_dir is not None:
        run_dir = Path(resolved.config.logger.run_dir)
    return (run_dir or default_run_dir(resolved)).absolute()


def with_paths(config: ConfigContainer, run_dir: Path) -> ConfigContainer:
    """The configuration with every path that derives from the run directory filled in, where the user set none."""
    derived = {
        "logger": {
            "run_dir": str(run_dir),
            "tensorboard_dir": str(run_dir / "tb_logs"),
            "save_config_filepath": str(run_dir / CONFIG),
        },
        "checkpoint": {"save": str(run_dir / "checkpoints")},
    }
    sections = {}
    for name, paths in derived.items():
        section = getattr(config, name)
        missing = {field: path for field, path in paths.items() if getattr(section, field) is None}
        sections[name] = section.model_copy(update=missing | ({"run_dir": str(run_dir)} if name == "logger" else {}))
    return config.model_copy(update=sections)


def check(run_dir: Path, config: ConfigContainer) -> None:
    """Find out whether a run with `config` may use `run_dir`; changes nothing.

    Raises:
        RunRefused: the directory cannot be written, is no run directory, or belongs to a run that was shaped otherwise.
    """
    require_writable(run_dir, "the run directory", "--run-dir")
    written = run_dir / CONFIG
    if not written.is_file():
        return
    try:
        differences = shaping_differences(from_yaml(written.read_text(encoding="utf-8")), config)
    except (ConfigError, OSError, UnicodeDecodeError) as error:
        raise RunRefused(f"{written} cannot be read ({error}); give another --run-dir") from None
    if differences:
        raise RunRefused(
            f"{run_dir} holds a run with another configuration: {'; '.join(differences)}. "
            "Give another --run-dir, or the settings of that run"
        )


def require_writable(directory: Path, what: str, word: str) -> None:
    """Find out whether files can be made in `directory`, or in the nearest directory above it that exists.

    Raises:
        RunRefused: they cannot; `what` it is and which `word` names another one goes into the message.
    """
    if directory.exists() and not directory.is_dir():
        raise RunRefused(f"{what} {directory} is a file; give another {word}")
    parent = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK) or not _writable(parent):
        raise RunRefused(f"{what} {directory} cannot be written: {parent} is not writable; give another {word}")


def create(run_dir: Path, config: ConfigContainer) -> None:
    """Make the run directory and write the resolved configuration into it; the status of an older session goes.

    Raises:
        RunRefused: the directory cannot be written.
    """
    text = to_yaml(config)
    for target in dict.fromkeys((run_dir / CONFIG, Path(str(config.logger.save_config_filepath)))):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, text)
        except OSError as error:
            raise RunRefused(f"the configuration cannot be written to {target}: {error.strerror}") from None
    (run_dir / STATUS).unlink(missing_ok=True)


def left_by_start(run_dir: Path) -> set[Path]:
    """What of the things that a start makes is there."""
    return {run_dir / name for name in MADE_AT_START if (run_dir / name).exists()}


def remove(paths: set[Path]) -> None:
    """Take away what a start has made that came to nothing."""
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def write_status(path: Path, *, exit_code: int, reason: str, session_id: str | None, step: int | None) -> None:
    """Leave the outcome of a session."""
    write_atomically(path, _status(exit_code, reason, session_id, step))


def write_first_status(path: Path, *, exit_code: int, reason: str, session_id: str | None, step: int | None) -> None:
    """As `write_status`, unless another rank has done so: what comes later is a consequence."""
    with suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
        file.write(_status(exit_code, reason, session_id, step))


def _status(exit_code: int, reason: str, session_id: str | None, step: int | None) -> str:
    status = {"exit_code": exit_code, "reason": reason, "session_id": session_id, "step": step}
    return json.dumps(status, indent=2) + "\n"


def write_atomically(path: Path, text: str) -> None:
    """Replace the file at `path`: a reader sees the old text or the new one, whole."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def _writable(directory: Path) -> bool:
    """`os.access` says yes to root on a read-only file system, so try."""
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False
