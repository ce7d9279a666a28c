"""Which recipe, mode and forward step the words select."""

from dataclasses import dataclass

from trainwright.recipes.benchmarks import benchmarks, find_benchmark
from trainwright.recipes.collisions import COLLISIONS
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.library import RECIPES, Recipe, find_recipe, recipe_names
from trainwright.recipes.nearest import did_you_mean, nearest
from trainwright.recipes.planned import STEPS_TO_COME, is_planned_recipe, why_planned
from trainwright.recipes.steps import STEPS, step_of

TASKS = {"pretrain": "pretrain", "sft": "sft", "lora": "peft", "dora": "peft"}
"""`--mode` -> the task in a recipe's name."""

_MODE_OF_WORD = {
    "_pretrain_": "pretrain",
    "_sft_": "sft",
    "_finetune_": "sft",
    "_dora_": "dora",
    "_peft_": "lora",
    "_lora_": "lora",
}


@dataclass(frozen=True)
class Selection:
    """The selecting words of a command line, as typed."""

    recipe: str | None = None
    model: str | None = None
    mode: str | None = None
    dataset: str | None = None
    step_func: str | None = None


@dataclass(frozen=True)
class Selected:
    """What a selection stands for."""

    name: str
    """The recipe's name as the user selected it."""
    recipe: Recipe
    mode: str
    step_func: str
    warnings: tuple[str, ...] = ()


def select(selection: Selection) -> Selected:
    """Apply the selection rules. Raises ConfigError."""
    if (selection.recipe is None) == (selection.model is None):
        given = "both were given" if selection.recipe else "none was given"
        raise ConfigError(f"exactly one of --recipe NAME and --model NAME selects the run; {given}")
    mode = _checked_mode(selection.mode)
    if selection.recipe is not None:
        name = selection.recipe
        mode = _mode_of_recipe(name, mode)
    else:
        if mode is None:
            raise ConfigError(f"--model {selection.model} needs --mode {', '.join(TASKS)}")
        name = f"{selection.model}_{TASKS[mode]}_config"
    recipe = _recipe(name, selection)
    if mode is None:
        raise ConfigError(f"--recipe {name} does not say its mode; add --mode {', '.join(TASKS)}")
    if recipe.benchmark:
        _keep_benchmark(recipe, selection.dataset, mode)
    step = _step(selection.step_func) if selection.step_func else step_of(recipe.name)
    return Selected(name, recipe, mode, step, _collision(name, recipe))


def _keep_benchmark(recipe: Recipe, dataset: str | None, mode: str) -> None:
    """A benchmark owns its dataset, and its adapters are LoRA."""
    if dataset is not None:
        raise ConfigError(f"--dataset {dataset}: a benchmark recipe keeps its own dataset; leave --dataset out")
    if mode == "dora":
        library = find_recipe(f"{recipe.stem}_peft_config")
        way_out = f"for DoRA: --recipe {library.shown} --mode dora" if library else "no other of this model is here yet"
        raise ConfigError(f"--mode dora: {recipe.name} is a benchmark with fixed LoRA; {way_out}")


def _collision(name: str, recipe: Recipe) -> tuple[str, ...]:
    """A warning where the name is also one of the library."""
    if not recipe.benchmark or name not in COLLISIONS:
        return ()
    alias = COLLISIONS[name]
    if alias is None:
        other = "the library's has no name of its own"
    else:
        other = f"the library's is --recipe {alias}" + ("" if find_recipe(alias) else ", which is not available yet")
    return (f"{name} names two public recipes, and this is the benchmark; {other}",)


def find(name: str) -> Recipe | None:
    """The recipe that `--recipe NAME` selects: a benchmark before one of the library."""
    return find_benchmark(name) or find_recipe(name)


def all_recipes() -> tuple[Recipe, ...]:
    """Every recipe, the library first."""
    return (*RECIPES, *benchmarks())


def all_names() -> tuple[str, ...]:
    """Every name that `--recipe` takes."""
    return (*recipe_names(), *(recipe.name for recipe in benchmarks()))


def _checked_mode(mode: str | None) -> str | None:
    if mode is not None and mode not in TASKS:
        raise ConfigError(f"--mode {mode}: allowed are {', '.join(TASKS)}{did_you_mean(mode, TASKS)}")
    return mode


def _mode_of_recipe(name: str, mode: str | None) -> str | None:
    """The mode that the name implies, checked against the one typed."""
    implied = next((implied for word, implied in _MODE_OF_WORD.items() if word in name), None)
    if mode is None or implied is None:
        return mode or implied
    if TASKS[mode] != TASKS[implied] or (mode == "lora" and implied == "dora"):
        raise ConfigError(f"--mode {mode} contradicts --recipe {name}, which is for {implied}")
    return mode


def _recipe(name: str, selection: Selection) -> Recipe:
    recipe = find(name)
    if recipe is not None:
        return recipe
    asked = f"--recipe {name}" if selection.recipe else f"--model {selection.model} --mode {selection.mode}"
    if is_planned_recipe(name):
        beside = [recipe.shown for recipe in RECIPES if name.startswith(f"{recipe.stem}_")]
        listed = "available: " if beside else "nearest available: "
        listed += ", ".join(beside or nearest(name, [recipe.shown for recipe in all_recipes()]))
        raise ConfigError(f"{asked} is not available yet{why_planned(name) if beside else ''}; {listed}")
    if selection.model is None:
        raise ConfigError(f"{asked}: no such recipe{did_you_mean(name, all_names(), cutoff=0.5)}")
    tasks = [recipe.task for recipe in RECIPES if recipe.model == selection.model]
    if tasks:
        raise ConfigError(f"{asked}: there is no {name}; {selection.model} has {', '.join(tasks)}")
    near = did_you_mean(selection.model, [recipe.model for recipe in RECIPES if recipe.model])
    raise ConfigError(f"{asked}: no such recipe, {name}{near}")


def _step(name: str) -> str:
    if name in STEPS:
        return name
    if name in STEPS_TO_COME:
        raise ConfigError(f"--step-func {name} is not available yet; available: {', '.join(STEPS)}")
    raise ConfigError(f"--step-func {name}: no such step; available: {', '.join(STEPS)}{did_you_mean(name, STEPS)}")
