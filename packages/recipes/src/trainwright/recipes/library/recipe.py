"""What a recipe is: a name, what it stands for, and the function that builds it."""

from collections.abc import Callable
from dataclasses import dataclass

from trainwright.recipes.config import ConfigContainer


@dataclass(frozen=True)
class Recipe:
    """A complete recipe."""

    name: str
    """The concrete name: model, task, GPUs, hardware, precision, variant."""
    alias: str | None
    """The generic name, mostly model and task; null where only the concrete name is public."""
    task: str
    """`pretrain`, `sft` or `peft`."""
    world_size: int
    """The GPUs it was written for."""
    hardware: str
    build: Callable[[], ConfigContainer]
    precision: str = "bf16"
    """As in its name: `bf16`, `fp8cs`, `fp8ds`, `fp8mx`, `fp8sc` or `nvfp4`."""
    variant: str = ""
    """What its name says after the precision."""
    benchmark: bool = False
    """A benchmark recipe owns its dataset and refuses `--dataset`."""
    known_invalid: str | None = None
    """Why the public recipe cannot run as it stands; null where it can."""
    own: bool = False
    """Ours: no public recipe has this name."""

    @property
    def shown(self) -> str:
        """The shortest name that `--recipe` takes."""
        return self.alias or self.name

    @property
    def stem(self) -> str:
        """The model in its name."""
        return self.name.partition(f"_{self.task}_")[0]

    @property
    def model(self) -> str | None:
        """What `--model` takes; null where only `--recipe` selects it."""
        ending = f"_{self.task}_config"
        return self.alias.removesuffix(ending) if self.alias and self.alias.endswith(ending) else None
