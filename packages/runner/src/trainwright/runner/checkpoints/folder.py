"""The folder of a run's checkpoints, without torch.

```
checkpoints/
  iter_0000010/                        complete: its name is given after everything in it is safe
  iter_0000020/
  .partial_iter_0000030/               being written, or left by a crash
  latest_checkpointed_iteration.txt    `20`: the latest complete one, replaced atomically
```

Folder and marker are named as Megatron-LM names them.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from trainwright.runner.errors import RunRefused

MARKER = "latest_checkpointed_iteration.txt"
COMPLETE = "iter_"
PARTIAL = ".partial_iter_"


@dataclass(frozen=True)
class CheckpointFolder:
    """Checkpoints below one path."""

    path: Path

    def complete(self, step: int) -> Path:
        """Where the finished checkpoint of `step` lies."""
        return self.path / f"{COMPLETE}{step:07d}"

    def partial(self, step: int) -> Path:
        """Where the checkpoint of `step` is while it is written."""
        return self.path / f"{PARTIAL}{step:07d}"

    def steps(self) -> list[int]:
        """Steps of all complete checkpoints, oldest first."""
        if not self.path.is_dir():
            return []
        names = (entry.name.removeprefix(COMPLETE) for entry in self.path.iterdir() if entry.name.startswith(COMPLETE))
        return sorted(int(name) for name in names if name.isdecimal())

    def latest(self) -> int | None:
        """The step that the marker names; null where there is no marker.

        Raises:
            RunRefused: the marker names a checkpoint that is not there.
        """
        marker = self.path / MARKER
        if not marker.is_file():
            return None
        text = marker.read_text(errors="replace").strip()
        if not text.isdecimal() or int(text) not in self.steps():
            raise RunRefused(
                f"{marker} names the checkpoint {text!r}, and there are only {self.steps()}: correct the marker"
            )
        return int(text)

    def find(self, step: int | None) -> int | None:
        """The step to load: `step` where it is given, else the latest.

        Raises:
            RunRefused: there is no such checkpoint.
        """
        if step is None:
            return self.latest()
        if step not in self.steps():
            raise RunRefused(f"checkpoint.ckpt_step={step}: {self.path} holds the steps {self.steps()}")
        return step

    def begin(self, step: int) -> Path:
        """Make an empty place for the checkpoint of `step`; what a crash left there before is removed."""
        place = self.partial(step)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return place

    def commit(self, step: int) -> None:
        """Give the finished checkpoint its name, then point the marker to it; a crash between leaves the old one."""
        _sync_tree(self.partial(step))
        replaced = self.path / f"{PARTIAL}{step:07d}.replaced"
        if self.complete(step).exists():
            # Moved out of the way first: emptying it takes long, and the marker may name it.
            shutil.rmtree(replaced, ignore_errors=True)
            self.complete(step).rename(replaced)
        self.partial(step).rename(self.complete(step))
        _sync(self.path)
        shutil.rmtree(replaced, ignore_errors=True)
        fresh = self.path / f".{MARKER}"
        with open(fresh, "w") as stream:
            stream.write(f"{step}\n")
            stream.flush()
            os.fsync(stream.fileno())
        fresh.rename(self.path / MARKER)
        _sync(self.path)

    def prune(self, keep: int) -> None:
        """Remove the oldest complete checkpoints beyond `keep` (-1 keeps all), and what crashes left behind.

        A checkpoint is hidden under the partial name before it is emptied, so that no half of one looks complete.
        """
        latest = self.latest()
        surplus = [] if keep < 0 else [step for step in self.steps()[: -keep or None] if step != latest]
        for step in surplus:
            shutil.rmtree(self.partial(step), ignore_errors=True)
            self.complete(step).rename(self.partial(step))
        for entry in self.path.glob(f"{PARTIAL}*"):
            shutil.rmtree(entry, ignore_errors=True)


def _sync_tree(path: Path) -> None:
    for entry in path.rglob("*"):
        _sync(entry)
    _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
