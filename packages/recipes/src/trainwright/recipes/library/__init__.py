"""The recipes of this version: a name, what it stands for, and the function that builds it."""

from collections.abc import Callable
from dataclasses import dataclass

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.library.gpt import vanilla_gpt_pretrain, vanilla_gpt_sft
from trainwright.recipes.library.llama import llama32_1b_pretrain, llama32_1b_sft


@dataclass(frozen=True)
class Recipe:
    """A complete recipe."""

    name: str
    """The concrete name: model, task, GPUs, hardware, precision."""
    alias: str
    """The generic name: model and task."""
    task: str
    """`pretrain`, `sft` or `peft`."""
    world_size: int
    """The GPUs it was written for."""
    hardware: str
    build: Callable[[], ConfigContainer]
    benchmark: bool = False
    """A benchmark recipe owns its dataset and refuses `--dataset`."""
    packs: bool = True
    """Its model keeps packed sequences apart (THD attention)."""
    own: bool = False
    """Ours: no public recipe has this name."""

    @property
    def model(self) -> str:
        """What `--model` takes."""
        return self.alias.removesuffix(f"_{self.task}_config")


RECIPES: tuple[Recipe, ...] = (
    Recipe(
        name="vanilla_gpt_pretrain_1gpu_h100_bf16_config",
        alias="vanilla_gpt_pretrain_config",
        task="pretrain",
        world_size=1,
        hardware="h100",
        build=vanilla_gpt_pretrain,
    ),
    Recipe(
        name="llama32_1b_pretrain_1gpu_h100_bf16_config",
        alias="llama32_1b_pretrain_config",
        task="pretrain",
        world_size=1,
        hardware="h100",
        build=llama32_1b_pretrain,
    ),
    Recipe(
        name="vanilla_gpt_sft_1gpu_h100_bf16_config",
        alias="vanilla_gpt_sft_config",
        task="sft",
        world_size=1,
        hardware="h100",
        build=vanilla_gpt_sft,
        own=True,
    ),
    Recipe(
        name="llama32_1b_sft_1gpu_h100_bf16_config",
        alias="llama32_1b_sft_config",
        task="sft",
        world_size=1,
        hardware="h100",
        build=llama32_1b_sft,
    ),
)


def find_recipe(name: str) -> Recipe | None:
    """The recipe of a concrete or generic name."""
    return next((recipe for recipe in RECIPES if name in (recipe.name, recipe.alias)), None)


def recipe_names() -> tuple[str, ...]:
    """Every name that `--recipe` takes."""
    return tuple(name for recipe in RECIPES for name in (recipe.alias, recipe.name))
