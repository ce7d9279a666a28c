"""Image directories for the Pyxis double: one that trains, and one that records what reached each rank."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

# Sees its arguments as the kernel does: no program in between may mend, or spoil, a byte.
RECORDER = """\
#!/bin/sh
# In place of run-recipe: writes down its arguments, environment and directory, then does what /record/then says.
here=/record/$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}.$SLURM_PROCID
cat /proc/$$/environ >"$here.environment"
cat /proc/$$/cmdline >"$here.arguments.part" && mv "$here.arguments.part" "$here.arguments"
pwd >"$here.directory"
echo "rank $SLURM_PROCID was here"
[ ! -e /record/then ] || . /record/then
"""


def image(place: Path, programs: dict[str, str | Path], environment: dict[str, str] | None = None) -> Path:
    """Make an image directory with `/opt/trainwright/bin` on its PATH: scripts by their text, programs by a link."""
    folder = place / "opt" / "trainwright" / "bin"
    folder.mkdir(parents=True)
    for name, content in programs.items():
        if isinstance(content, Path):
            (folder / name).symlink_to(content)
        else:
            (folder / name).write_text(content)
            (folder / name).chmod(0o755)
    (place / "etc").mkdir()
    baked = {"PATH": "/opt/trainwright/bin:/usr/bin:/bin", **(environment or {})}
    (place / "etc" / "environment").write_text("".join(f"{name}={value}\n" for name, value in baked.items()))
    return place


def training_image(place: Path) -> Path:
    """Trainwright's own container, as far as a directory can be one: the commands of this environment."""
    commands = Path(sys.executable).parent
    return image(place, {"run-recipe": commands / "run-recipe", "python3": Path(sys.executable)})


def recording_image(place: Path) -> Path:
    """`run-recipe` and `python3` are the recorder. A directory has to be mounted on /record."""
    return image(place, {"run-recipe": RECORDER, "python3": RECORDER}, {"BAKED": "by the image"})


@dataclass(frozen=True)
class Recorded:
    """What one rank of one start of a job was given."""

    arguments: tuple[bytes, ...]
    environment: dict[bytes, bytes]
    directory: str


def recorded(folder: Path, job: int, *, restart: int = 0) -> dict[int, Recorded]:
    """What the recorder wrote in `folder`, by rank."""
    found = {}
    for path in folder.glob(f"{job}.{restart}.*.arguments"):
        # /bin/sh, the script, and then what it was called with.
        arguments = path.read_bytes().removesuffix(b"\0").split(b"\0")[2:]
        pairs = path.with_suffix(".environment").read_bytes().split(b"\0")
        environment = dict(pair.split(b"=", 1) for pair in pairs if b"=" in pair)
        directory = os.fsdecode(path.with_suffix(".directory").read_bytes()).removesuffix("\n")
        found[int(path.name.split(".")[2])] = Recorded(tuple(arguments), environment, directory)
    return found
