"""What surrounds the process: how many ranks torchrun or Slurm started, and whether there is a GPU."""

import os
from pathlib import Path
from typing import Literal

from trainwright.recipes.words import UsageError

DEVICE_FILES = Path("/dev")


def requested_world_size() -> int | None:
    """The number of ranks that a dry run checks against; null where nobody asked for a number.

    Unlike a run, which is as large as the processes that were started, a dry run may be asked about any size:
    `WORLD_SIZE=16 run-recipe --dry-run ...`.

    Raises:
        UsageError: the variable holds something other than a positive integer.
    """
    name = next((name for name in ("WORLD_SIZE", "SLURM_NTASKS") if os.environ.get(name)), None)
    if name is None:
        return None
    text = os.environ[name]
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise UsageError(f"the environment variable {name} is {text!r}; it must be a positive integer")
    return int(text)


def refuse_lonely_world_size() -> None:
    """Refuse to run as one process where `WORLD_SIZE` speaks of several and nobody started the others.

    Raises:
        UsageError: `WORLD_SIZE` is above 1 and `RANK` is not set.
    """
    if "RANK" not in os.environ and os.environ.get("WORLD_SIZE", "1") != "1":
        size = os.environ["WORLD_SIZE"]
        raise UsageError(
            f"WORLD_SIZE is {size} but RANK is not set: start the ranks with `python -m torch.distributed.run "
            f"--nproc_per_node={size} -m trainwright_trainer ...`, or unset WORLD_SIZE to run on one"
        )


def auto_device() -> Literal["cpu", "cuda"]:
    """What `--device auto` means here: `cuda` where this process is given an NVIDIA GPU and torch was built for one.

    Torch itself is not asked: it costs seconds, and must not be imported before a recipe's variables are set.
    """
    from importlib.metadata import version

    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1")
    # On Linux each GPU is a device file; under Windows' Linux all of them are /dev/dxg.
    present = any(any(DEVICE_FILES.glob(pattern)) for pattern in ("nvidia[0-9]*", "dxg"))
    return "cuda" if present and not hidden and "+cpu" not in version("torch") else "cpu"
