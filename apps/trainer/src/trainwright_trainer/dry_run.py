"""`run-recipe --dry-run`: everything is checked, the configuration goes to stdout, what it amounts to to stderr."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright_trainer.words import UsageError

if TYPE_CHECKING:
    from trainwright.recipes import ResolvedRun


def check(resolved: ResolvedRun, run_dir: Path | None) -> None:
    """Refuse what the run itself would refuse before its first step, as far as one machine can tell; writes nothing.

    Raises:
        DataError: the data cannot be used.
        RunRefused: the run directory cannot be used.
    """
    from trainwright.datasets import check_data
    from trainwright.runner import directory

    run_dir = directory.locate(resolved, run_dir)
    directory.check(run_dir, directory.with_paths(resolved.config, run_dir))
    check_data(resolved.config)


def show(resolved: ResolvedRun) -> None:
    """Print the configuration as YAML to stdout and a summary to stderr.

    Writes one file, and only where `logger.save_config_filepath` names it.
    """
    from trainwright.recipes import to_yaml

    text = to_yaml(resolved.config)
    saved = resolved.config.logger.save_config_filepath
    if saved is not None:
        write_whole(Path(saved), text)
    sys.stdout.write(text)
    sys.stdout.flush()
    for line in summary(resolved):
        print(line, file=sys.stderr)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader sees all of it or none; parents are created.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete_on_close=False) as sibling:
            sibling.write(text)
            sibling.close()
            os.replace(sibling.name, path)
    except OSError as error:
        raise UsageError(f"logger.save_config_filepath={path} cannot be written: {error.strerror}") from error


def summary(resolved: ResolvedRun) -> list[str]:
    """Lines that say how large the run is."""
    raise NotImplementedError
