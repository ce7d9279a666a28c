"""Runs that something happens to at a chosen point, for the tests of failures."""

import os
import resource
import shutil
import signal
from importlib import import_module
from pathlib import Path

from tests.runner.training import train_on

# The calls before which something can happen.
POINTS = {
    "start-up": ("trainwright.runner.build", "build_data"),
    "update": ("trainwright.runner.loop", "train_step"),
    "naming a checkpoint": ("trainwright.runner.checkpoints.folder:CheckpointFolder", "commit"),
    "validation": ("trainwright.runner.validation", "forward_backward"),
}


def no_space_left(run_dir: Path) -> None:
    """From here on this process cannot write past the first 20 kB of a file, as if the disk were full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))


def file_for_folder(run_dir: Path) -> None:
    """Where checkpoints belong there is a file."""
    shutil.rmtree(run_dir / "checkpoints", ignore_errors=True)
    (run_dir / "checkpoints").write_text("")


def program_fault(run_dir: Path) -> None:
    """An exception that nobody expects."""
    raise ZeroDivisionError("a fault of the program")


EVENTS = {
    "SIGTERM": lambda run_dir: os.kill(os.getpid(), signal.SIGTERM),
    "SIGKILL": lambda run_dir: os.kill(os.getpid(), signal.SIGKILL),
    "no space left": no_space_left,
    "a file for a folder": file_for_folder,
    "run directory removed": shutil.rmtree,
    "program fault": program_fault,
}


def train_hit(event: str, point: str, rank: int, world_size: int, run_dir: Path, data: str, *words: str) -> int:
    """`train_on`, and `event` comes to that rank before the call that `point` names: `update 3` is the third one."""
    prepare(event, point, rank, run_dir)
    return train_on(world_size, run_dir, data, *words)


def prepare(event: str, point: str, rank: int, run_dir: Path) -> None:
    """Let `event` come to that rank before the call that `point` names."""
    kind, _, number = point.rpartition(" ") if point[-1].isdecimal() else (point, "", "1")
    place, name = POINTS[kind]
    path, _, owner = place.partition(":")
    module = getattr(import_module(path), owner) if owner else import_module(path)
    whole, calls = getattr(module, name), [0]

    def with_event(*arguments, **options):
        calls[0] += 1
        if calls[0] == int(number or 1) and int(os.environ["RANK"]) == rank:
            EVENTS[event](run_dir)
        return whole(*arguments, **options)

    setattr(module, name, with_event)
