"""`--mode lora|dora` and `peft.scheme`: one choice, which either word makes."""

from trainwright.recipes.draft import Draft, show
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.library import Recipe, find_recipe

SCHEME = "peft.scheme"
FROM_MODE = "flag --mode"


def settle_scheme(draft: Draft, recipe: Recipe, mode: str, typed: bool) -> str:
    """The mode of the run, in which `peft.scheme` agrees; `typed` says that the user chose it with `--mode`.

    A recipe of adapters takes either scheme; a benchmark's is fixed. Raises ConfigError where the words contradict each
    other, where adapters are set in a mode that has none, and where a mode of adapters is left without.
    """
    scheme = draft[SCHEME]
    if mode not in ("lora", "dora"):
        if scheme is not None:
            first = next(path for path in draft.values if path.startswith("peft.") and draft.typed(path))
            raise ConfigError(
                f"{first}={show(draft[first])}: --mode {mode} trains all weights and has no adapters"
                f"{_way_out(recipe, 'peft', 'does')}"
            )
        return mode
    if scheme is None:
        way_out = _way_out(recipe, "sft", "trains all weights")
        raise ConfigError(f"peft=null leaves nothing to train: --mode {mode} trains adapters{way_out}")
    if draft.typed(SCHEME) and typed and scheme != mode:
        raise ConfigError(f"{SCHEME}={scheme} contradicts --mode {mode}; leave one of them out")
    if recipe.benchmark and scheme != draft.recipe[SCHEME]:
        raise ConfigError(
            f"{SCHEME}={scheme}: {recipe.name} is a benchmark with fixed LoRA{_way_out(recipe, 'peft', 'takes either')}"
        )
    if typed and scheme != mode:
        draft.put(SCHEME, mode, FROM_MODE)
    return mode if typed else str(draft[SCHEME])


def _way_out(recipe: Recipe, task: str, does: str) -> str:
    """The library's recipe of the same model for another task, where there is one, and what it does."""
    other = find_recipe(f"{recipe.stem}_{task}_config")
    return f"; --recipe {other.shown} {does}" if other else ""
