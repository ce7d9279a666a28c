"""Selecting a benchmark: exact names, what it keeps, names of both catalogues, and recipes that cannot run."""

import pytest
from recipes_runs import refusal, run, says

from trainwright.recipes import ConfigError, Selection, resolve
from trainwright.recipes.benchmarks import benchmarks, find_benchmark
from trainwright.recipes.collisions import COLLISIONS
from trainwright.recipes.known_invalid import require_valid
from trainwright.recipes.library import RECIPES, Recipe, find_recipe, recipe_names
from trainwright.recipes.planned import STEPS_TO_COME, is_planned_recipe
from trainwright.recipes.selection import select
from trainwright.recipes.steps import OF_NAMES, OF_PREFIXES, STEPS, step_of

BENCHMARK = "llama3_8b_pretrain_8gpu_h100_bf16_config"


def test_an_exact_name_selects_its_benchmark() -> None:
    """Its mode and its step come with it."""
    for recipe in benchmarks():
        selected = select(Selection(recipe=recipe.name))
        assert selected.recipe is recipe
        assert selected.recipe.benchmark
        assert selected.mode == {"peft": "lora"}.get(recipe.task, recipe.task)
        assert selected.step_func == step_of(recipe.name) == "llm_step"


@pytest.mark.parametrize("recipe", benchmarks()[::30], ids=lambda recipe: recipe.name)
def test_where_no_size_is_named_the_recipes_own_is_validated(recipe: Recipe) -> None:
    """The run is canonical then; what it says is only which fields are not acted on."""
    resolved = run(recipe=recipe.name, world_size=None, device="cuda")
    assert (resolved.recipe, resolved.world_size) == (recipe.name, recipe.world_size)
    assert resolved.canonical
    assert resolved.canonical_differences == resolved.remarks == ()


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


@pytest.mark.parametrize("recipe", [one for one in benchmarks() if one.task == "peft"], ids=lambda recipe: recipe.name)
def test_adapters_of_a_benchmark_are_lora(recipe: Recipe) -> None:
    """Whichever word asks for DoRA, the line names the library recipe that takes either, and that one does."""
    assert run(recipe=recipe.name, world_size=None, device="cuda").mode == "lora"
    with pytest.raises(ConfigError) as caught:
        resolve(Selection(recipe=recipe.name, mode="dora"), [], world_size=None, device="cuda")
    says(str(caught.value), "fixed LoRA", "--recipe llama3_70b_peft_config --mode dora")
    says(refusal("peft.scheme=dora", recipe=recipe.name, world_size=None, device="cuda"), "fixed LoRA")
    library = Selection(recipe="llama3_70b_peft_config", mode="dora")
    assert resolve(library, [], world_size=None, device="cuda").mode == "dora"


@pytest.mark.parametrize(
    ("selection", "says_so"),
    [
        (Selection(recipe=BENCHMARK, mode="sft"), "--mode sft contradicts"),
        (Selection(recipe=BENCHMARK, model="llama3_8b"), "both were given"),
        (Selection(recipe=BENCHMARK, step_func="vlm_step"), "--step-func vlm_step is not available yet"),
        (Selection(model="llama3_8b_pretrain_8gpu_h100_bf16", mode="pretrain"), "no such recipe"),
    ],
)
def test_a_benchmark_is_selected_by_the_rules_of_all(selection: Selection, says_so: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(selection, [], world_size=None, device="cuda")
    says(str(caught.value), says_so)


def names_of_both() -> set[str]:
    return {recipe.name for recipe in benchmarks()} & set(recipe_names())


def test_names_of_both_catalogues_are_a_closed_list() -> None:
    """Every other name is unique, in each catalogue and between the two."""
    names = [recipe.name for recipe in benchmarks()]
    assert len(names) == len(set(names))
    assert names_of_both() == {name for name in COLLISIONS if find_benchmark(name)}
    assert len(names_of_both()) == 6
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
    assert select(Selection(recipe=name)).recipe is recipe
    assert not recipe.benchmark


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("llama3_8b_pretrain_8gpu_h100_bf16_config", "llm_step"),
        ("exaone45_vl_33b_sft_config", "llm_step"),
        ("qwen3_vl_30b_a3b_pretrain_16gpu_h100_bf16_config", "qwen3_vl_step"),
        ("qwen35_vl_35b_a3b_pretrain_16gpu_h100_bf16_config", "qwen3_vl_step"),
        ("qwen3_vl_8b_peft_energon_config", "vlm_step"),
        ("qwen3_omni_30b_a3b_sft_config", "qwen3_omni_step"),
        ("qwen3_30b_a3b_pretrain_config", "llm_step"),
        ("nemotron_omni_cord_v2_sft_config", "nemotron_omni_step"),
        ("nemotron_3_nano_pretrain_config", "llm_step"),
        ("wan_14b_pretrain_64gpu_h100_bf16_config", "wan_step"),
    ],
)
def test_one_registry_knows_the_step_of_either_catalogue(name: str, step: str) -> None:
    """By the whole name, else by how it begins, else the text step; each is here or said to come."""
    assert step_of(name) == step
    assert {*OF_NAMES.values(), *OF_PREFIXES.values()} <= {*STEPS, *STEPS_TO_COME}


EXPERTS = "qwen3_235b_a22b_pretrain_64gpu_gb200_fp8mx_config"
KNOBS = "qwen3_235b_a22b_pretrain_128gpu_b200_fp8mx_deepep_dev_config"
CACHE = "gpt_oss_20b_pretrain_512gpu_gb200_fp8mx_config"
WARMUP = "gpt_oss_20b_pretrain_8gpu_b300_fp8mx_config"


@pytest.mark.parametrize("recipe", [one for one in benchmarks() if one.known_invalid], ids=lambda recipe: recipe.name)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_recipe_that_cannot_run_resolves_with_its_mark_and_does_not_start(recipe: Recipe, device: str) -> None:
    """To look at it is allowed, also with words beside the point, and it says why."""
    resolved = run("rng.seed=7", recipe=recipe.name, world_size=None, device=device)
    assert resolved.known_invalid == recipe.known_invalid
    assert any(recipe.known_invalid in warning for warning in resolved.warnings)
    with pytest.raises(ConfigError, match="known to be invalid as it stands") as caught:
        require_valid(resolved)
    says(str(caught.value), recipe.name, recipe.known_invalid)


@pytest.mark.parametrize(
    ("name", "words", "ranks"),
    [
        # Experts on fewer ranks each, or as many ranks as they need.
        (EXPERTS, ("model.expert_model_parallel_size=8",), None),
        (EXPERTS, (), 256),
        (CACHE, ("dataset.path_to_cache=/cache",), None),
        (WARMUP, ("dataset.path_to_cache=/cache", "scheduler.lr_warmup_iters=10"), None),
        (KNOBS, ("~model.moe_deepep_num_sms",), None),
    ],
)
def test_words_mend_what_is_wrong(name: str, words: tuple[str, ...], ranks: int | None) -> None:
    """The mark goes with its reason."""
    mended = run(*words, recipe=name, world_size=ranks, device="cuda")
    assert mended.known_invalid is None
    assert not [warning for warning in mended.warnings if "known to be invalid" in warning]
    require_valid(mended)


@pytest.mark.parametrize("words", [("dataset.path_to_cache=/cache",), ("scheduler.lr_warmup_iters=10",)])
def test_half_a_mending_leaves_the_mark(words: tuple[str, ...]) -> None:
    assert run(*words, recipe=WARMUP, world_size=None, device="cuda").known_invalid


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("train.micro_batch_size=3",), ("train.global_batch_size",)),
        (("model.expert_model_parallel_size=12",), ("expert_model_parallel_size=12",)),
        (("model.tensor_model_parallel_size=3",), ("world size 64 is not a multiple of",)),
    ],
)
def test_the_mark_hides_no_other_mistake(words: tuple[str, ...], parts: tuple[str, ...]) -> None:
    """Only what is wrong with the recipe itself is tolerated."""
    says(refusal(*words, recipe=EXPERTS, world_size=None, device="cuda"), *parts)


def test_a_recipe_of_sharded_weights_is_looked_at_and_does_not_start_on_gpus() -> None:
    """Megatron FSDP: without it the memory would be another; the word that trains without is named, and is enough."""
    name, off = "llama3_70b_pretrain_64gpu_gb300_bf16_config", "ddp.use_megatron_fsdp=false"
    resolved = run(recipe=name, world_size=None, device="cuda")
    assert any("no run on GPUs starts with it" in warning for warning in resolved.warnings)
    with pytest.raises(ConfigError, match=r"ddp\.use_megatron_fsdp=true is recorded but not available yet") as caught:
        require_valid(resolved)
    says(str(caught.value), off)
    require_valid(run(off, recipe=name, world_size=None, device="cuda"))
    require_valid(run(recipe=name, world_size=None, device="cpu"))
