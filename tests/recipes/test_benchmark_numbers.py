"""Every number of every public benchmark recipe is what `resolve` gives."""

from functools import cache
from typing import Any

import pytest
from public_benchmarks import (
    ALWAYS,
    EXPERTS_DO_NOT_FIT,
    FAILS_ITS_OWN_VALIDATION,
    NO_FIELD,
    NOT_SET_HERE,
    OF_RECIPE,
    OF_RUN,
    OF_THE_DATA,
    ON_A_NAME,
    ROWS,
    SET_BY_RECIPE,
    SIZES,
    differs,
)

from trainwright.recipes import ConfigContainer, ResolvedRun, Selection, resolve
from trainwright.recipes.benchmarks import benchmarks, find_benchmark
from trainwright.recipes.blocks import spelled_out
from trainwright.recipes.carried import off
from trainwright.recipes.fields import section_classes, split_path
from trainwright.recipes.library import Recipe


@cache
def run(name: str) -> ResolvedRun:
    return resolve(Selection(recipe=name), [], world_size=None, device="cuda")


def recipe(name: str) -> Recipe:
    found = find_benchmark(name)
    assert found is not None
    return found


def here(config: ConfigContainer, path: str) -> Any:
    """The value of a field; its default where nobody set it, also where the section is null."""
    held: Any = config
    for part in path.split("."):
        fields = dict(held) if held is not None else {}
        if part not in fields:
            return off(path)
        held = fields[part]
    return held


def of_class(path: str) -> Any:
    """The default of a field; null for one that every configuration has to set."""
    section, name = split_path(path)
    declared = section_classes()[section].model_fields.get(name)
    return None if declared and declared.is_required() else off(path)


def same(path: str, ours: Any, public: Any) -> bool:
    if path == "model.pipeline_model_parallel_layout" and ours and public:
        return spelled_out(ours) == spelled_out(public)
    return ours == public or (not ours and public in ([], None) and ours in ([], None))


def is_read(config: ConfigContainer, path: str) -> bool:
    """Whether anything reads the field in this configuration."""
    flexible = config.model.moe_token_dispatcher_type == "flex"
    backend = config.model.moe_flex_dispatcher_backend
    if path == "model.moe_flex_dispatcher_backend":
        return flexible
    if path in ("model.moe_hybridep_num_sms", "model.moe_hybridep_num_sms_preprocessing"):
        return flexible and backend == "hybridep"
    return True


def differing(config: ConfigContainer, name: str, columns: dict[str, str]) -> dict[str, tuple[Any, Any]]:
    """Column -> value here and the public one, for each column in which they are not the same."""
    row = ROWS[name]
    found = {}
    for column, path in columns.items():
        if column in OF_THE_DATA and row["task"] != "pretrain":
            continue
        other, wanted = differs(column, row) if columns is OF_RUN else (False, None)
        public = wanted if other else row[column]
        if public is None and not other:
            # The public recipe says nothing: nothing but the default is said here either.
            ours, public = here(recipe(name).build(), path), of_class(path)
        else:
            ours = here(config, path)
        if not same(path, ours, public) and is_read(config, path):
            found[column] = (ours, public)
    return found


def test_every_column_is_compared_or_says_why_not() -> None:
    """So that a number cannot be left out unseen."""
    columns = {column for row in ROWS.values() for column in row}
    tables = (OF_RECIPE, OF_RUN, dict.fromkeys(ON_A_NAME), SIZES, ALWAYS, NO_FIELD)
    assert columns == {column for table in tables for column in table}
    assert all(not set(ALWAYS) & set(table) and not set(NO_FIELD) & set(table) for table in (OF_RECIPE, OF_RUN, SIZES))


@pytest.mark.parametrize(("column", "value"), [(column, value) for column, (value, _) in ALWAYS.items()])
def test_a_column_without_a_field_holds_one_value_in_all_rows(column: str, value: Any) -> None:
    assert {str(row[column]) for row in ROWS.values()} <= {str(value), "None"}


@pytest.mark.parametrize("name", ROWS)
def test_what_a_recipe_says_is_what_the_public_one_says(name: str) -> None:
    """Before anything follows from the topology."""
    assert differing(recipe(name).build(), name, OF_RECIPE) == {}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_run_is_what_the_public_recipe_runs(name: str) -> None:
    resolved, row = run(name), ROWS[name]
    assert differing(resolved.config, name, OF_RUN) == {}
    if name not in EXPERTS_DO_NOT_FIT:
        assert {column: getattr(resolved, size) for column, size in SIZES.items()} == {
            column: row[column] for column in SIZES
        }


SET_SOMEWHERE = {name for row in ROWS.values() for name in row["model_set_by_recipe"]}


def test_every_further_field_that_a_recipe_sets_is_compared_or_says_why_not() -> None:
    assert set(SET_SOMEWHERE) <= {*SET_BY_RECIPE, *NOT_SET_HERE}


@pytest.mark.parametrize("name", ROWS)
def test_further_fields_of_the_model_are_set_where_the_public_recipe_sets_them(name: str) -> None:
    """Nowhere else, but where they are part of the architecture or follow from the topology."""
    config, public = run(name).config, ROWS[name]["model_set_by_recipe"]
    elsewhere = {
        "position_embedding_type",
        "rotary_base",
        "rotary_scaling_factor",
        "overlap_p2p_comm",
        "batch_p2p_comm",
    }
    wanted = {field: public[field] if field in public else off(f"model.{field}") for field in SET_BY_RECIPE}
    found = {
        field: (here(config, f"model.{field}"), value)
        for field, value in wanted.items()
        if (field in public or field not in elsewhere) and here(config, f"model.{field}") != value
    }
    assert found == {}


@pytest.mark.parametrize("name", ROWS)
def test_its_environment_is_the_public_one(name: str) -> None:
    assert run(name).config.env_vars == {variable: str(text) for variable, text in ROWS[name]["env_vars"].items()}


@pytest.mark.parametrize("name", ROWS)
def test_its_name_says_what_it_is_for(name: str) -> None:
    row, found = ROWS[name], recipe(name)
    assert (found.task, found.world_size, found.hardware, found.precision, found.variant or None, found.stem) == tuple(
        row[column] for column in ("task", "num_gpus", "hardware", "precision", "variant", "model_stem")
    )


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row["task"] != "pretrain"])
def test_fine_tuning_benchmarks_train_on_generated_documents(name: str) -> None:
    """Cut as Megatron Bridge's runner cuts them, and read as its recipes read theirs."""
    dataset, row = run(name).config.dataset, ROWS[name]
    assert (dataset.kind, dataset.split, dataset.seq_length) == ("mock", "99990,8,2", row["resolved_seq_length"])
    assert dataset.num_workers == row["dataset_num_workers"]


def test_exactly_the_recipes_that_cannot_run_are_marked() -> None:
    marked = {recipe.name for recipe in benchmarks() if recipe.known_invalid}
    assert marked == EXPERTS_DO_NOT_FIT | FAILS_ITS_OWN_VALIDATION
    assert {name for name in ROWS if run(name).known_invalid} == marked


def test_recipes_whose_experts_do_not_fit_say_so() -> None:
    assert all("expert times pipeline" in str(recipe(name).known_invalid) for name in EXPERTS_DO_NOT_FIT)
