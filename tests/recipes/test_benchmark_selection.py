"""Selecting a benchmark: exact names, what it keeps, names of both catalogues, and recipes that cannot run."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from recipes_runs import refusal, run, says

from trainwright.recipes import ConfigError
from trainwright.recipes.benchmarks import benchmarks, find_benchmark
from trainwright.recipes.collisions import COLLISIONS
from trainwright.recipes.known_invalid import require_valid
from trainwright.recipes.library import RECIPES, Recipe, find_recipe, recipe_names
from trainwright.recipes.planned import is_planned_recipe
from trainwright.recipes.steps import step_of

BENCHMARK = "llama3_8b_pretrain_8gpu_h100_bf16_config"


@pytest.mark.parametrize("recipe", benchmarks(), ids=lambda recipe: recipe.name)
def test_an_exact_name_selects_its_benchmark(recipe: Recipe) -> None:
    """Its mode, its size and its step come with it, and a dry run that names no size validates its own."""
    resolved = run(recipe=recipe.name, world_size=None, device="cuda")
    assert resolved.benchmark
    assert (resolved.recipe, resolved.world_size, resolved.canonical) == (recipe.name, recipe.world_size, True)
    assert resolved.mode == {"peft": "lora"}.get(recipe.task, recipe.task)
    assert resolved.step_func == step_of(recipe.name) == "llm_step"


@pytest.mark.parametrize(
    ("options", "words", "parts"),
    [
        ({"dataset": "mock"}, (), ("--dataset mock", "keeps its own dataset")),
        ({"recipe": "llama3_8b_pretrain_8gpu_h100_bf16"}, (), ("no such recipe", f"'{BENCHMARK}'")),
        ({"recipe": "llama3_8b_pretrain_8gpu_h200_bf16_config"}, (), ("no such recipe", f"'{BENCHMARK}'")),
        ({"world_size": 3}, (), ("world size 3 is not a multiple of 2",)),
        ({"world_size": 1}, (), ("world size 1 is not a multiple of 2", "-cp", "--rehearse")),
    ],
)
def test_a_benchmark_says_what_it_does_not_do(
    options: dict[str, object], words: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    says(refusal(*words, **{"recipe": BENCHMARK, "world_size": 8, "device": "cuda"} | options), *parts)


def names_of_both() -> set[str]:
    return {recipe.name for recipe in benchmarks()} & set(recipe_names())


def test_names_of_both_catalogues_are_a_closed_list() -> None:
    """Every other name is unique, in each catalogue and between the two."""
    names = [recipe.name for recipe in benchmarks()]
    assert len(names) == len(set(names))
    assert names_of_both() <= COLLISIONS.keys()
    for name, alias in COLLISIONS.items():
        assert is_planned_recipe(name)
        library = find_recipe(name)
        assert library is None or library.alias == alias


@pytest.mark.parametrize("name", COLLISIONS)
def test_a_name_of_both_selects_the_benchmark_and_names_the_other(name: str) -> None:
    """The library's workload is still there, under its alias."""
    if find_benchmark(name) is None:
        says(refusal(recipe=name), name, "not available yet")
        return
    resolved = run(recipe=name, world_size=None, device="cuda")
    (warning,) = [warning for warning in resolved.warnings if "two public recipes" in warning]
    says(warning, name, "this is the benchmark", COLLISIONS[name] or "no name of its own")
    alias = COLLISIONS[name]
    if alias and find_recipe(alias):
        library = run(recipe=alias, world_size=None, device="cuda")
        assert not library.benchmark
        assert library.config != resolved.config


@pytest.mark.parametrize("recipe", [recipe for recipe in RECIPES if recipe.model], ids=lambda recipe: recipe.shown)
def test_a_library_recipe_is_no_benchmark_whatever_its_name_says(recipe: Recipe) -> None:
    """It scales no batch and takes a dataset, though it names GPUs; but for the closed list, of which it says so."""
    name = recipe.name if recipe.name not in COLLISIONS else recipe.alias
    assert not run(recipe=name, world_size=None, device="cuda").benchmark


DENSE = "llama3_70b_pretrain_config"
REASON = "its source refuses it: this and that"


@pytest.fixture
def known_invalid(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A recipe of experts whose groups do not fill its ranks, and a sound one that its source refuses."""
    experts, dense = find_recipe("qwen3_30b_a3b_pretrain_config"), find_recipe(DENSE)
    assert experts is not None
    assert dense is not None
    marked = {
        "experts_pretrain_config": replace(experts, world_size=8, known_invalid=REASON, benchmark=True),
        "dense_pretrain_config": replace(dense, known_invalid=REASON, benchmark=True),
    }
    monkeypatch.setattr("trainwright.recipes.selection.find_recipe", marked.get)
    yield


@pytest.mark.usefixtures("known_invalid")
@pytest.mark.parametrize("name", ["experts", "dense"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_recipe_that_cannot_run_resolves_with_its_mark_and_does_not_start(name: str, device: str) -> None:
    """To look at it is allowed, and it says why."""
    resolved = run("train.train_iters=4000", recipe=f"{name}_pretrain_config", world_size=None, device=device)
    assert resolved.known_invalid == REASON
    assert any(REASON in warning for warning in resolved.warnings)
    with pytest.raises(ConfigError, match="known to be invalid") as caught:
        require_valid(resolved)
    says(str(caught.value), f"{name}_pretrain_config", REASON)


@pytest.mark.usefixtures("known_invalid")
def test_words_mend_what_a_rule_of_ours_sees() -> None:
    """Other sizes, or as many ranks as its experts need."""
    experts = "experts_pretrain_config"
    word = "model.expert_model_parallel_size=8"
    for mended in (
        run(word, recipe=experts, world_size=None, device="cuda"),
        run(recipe=experts, world_size=16, device="cuda"),
    ):
        assert mended.known_invalid is None
        assert not [warning for warning in mended.warnings if REASON in warning]
        require_valid(mended)
    assert run("train.train_iters=4000", recipe="dense_pretrain_config", world_size=None, device="cuda").known_invalid


@pytest.mark.usefixtures("known_invalid")
@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("train.micro_batch_size=3",), ("train.global_batch_size",)),
        (("model.expert_model_parallel_size=12",), ("expert_model_parallel_size=12",)),
        (("model.tensor_model_parallel_size=3",), ("world size 8 is not a multiple of 3",)),
    ],
)
def test_the_mark_hides_no_other_mistake(words: tuple[str, ...], parts: tuple[str, ...]) -> None:
    """Only what is wrong with the recipe itself is tolerated."""
    says(refusal(*words, recipe="experts_pretrain_config", world_size=None, device="cuda"), *parts)
