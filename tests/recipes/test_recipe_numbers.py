"""The recipes hold the numbers of their public originals."""

from functools import cache
from typing import Any

import pytest
from public import DIFFERS, FIELDS, FINETUNING_DIFFERS, NAMES, NO_FIELD, NO_MODEL_FIELD, RECIPE_ROWS, RENAMED, SPELLED
from recipes_runs import value

from trainwright.recipes import ConfigContainer, ConfigError, Selection, catalogue, resolve
from trainwright.recipes.config.model import YARN_FIELDS, ModelConfig
from trainwright.recipes.fields import section_classes
from trainwright.recipes.library import RECIPES, Recipe, find_recipe
from trainwright.recipes.planned import WAITING
from trainwright.recipes.validate.extras import HONOURED

PUBLIC = [recipe for recipe in RECIPES if not recipe.own]
FIELDS_OF_COLUMNS = {path.removeprefix("model.") for path in FIELDS.values()}
WAITING_NAMES = sorted(RECIPE_ROWS.keys() & WAITING.keys())


@cache
def resolved(recipe: Recipe) -> ConfigContainer:
    """By its generic name, since a concrete one may be a benchmark's too."""
    return resolve(Selection(recipe=recipe.shown), [], world_size=None, device="cuda").config


def expected(recipe: Recipe, path: str, public: Any) -> Any:
    """What the public row says of a field, as it is here."""
    if recipe.task != "pretrain" and path in FINETUNING_DIFFERS:
        return FINETUNING_DIFFERS[path]
    return DIFFERS.get((recipe.name, path), SPELLED.get(public, public) if isinstance(public, str) else public)


def value_or_default(config: ConfigContainer, path: str) -> Any:
    """The value of a field, of `TransformerConfig`'s where ours does not declare it."""
    name = path.removeprefix("model.")
    unset = path.startswith("model.") and name not in dict(config.model)
    return catalogue.default(name) if unset else value(config, path)


def default_of(name: str) -> Any:
    """The default of a field of `model`."""
    declared = ModelConfig.model_fields.get(name)
    return declared.default if declared else catalogue.default(name)


def is_read(config: ConfigContainer, path: str) -> bool:
    """Whether anything reads the field in this configuration."""
    model = config.model
    unread = {
        "model.moe_hybridep_num_sms": (model.moe_token_dispatcher_type, model.moe_flex_dispatcher_backend)
        != ("flex", "hybridep"),
        "model.cp_comm_type": model.context_parallel_size == 1,
        "model.cross_entropy_fusion_impl": not model.cross_entropy_loss_fusion,
    }
    return not unread.get(path, False)


def test_every_public_recipe_of_these_models_is_here_or_says_what_it_waits_for() -> None:
    assert {recipe.name for recipe in PUBLIC} == set(RECIPE_ROWS) - set(WAITING_NAMES)
    names = {name for row in WAITING_NAMES for name in (row, *RECIPE_ROWS[row]["aliases"])}
    assert names == WAITING.keys()


def test_every_column_is_compared_or_says_why_not() -> None:
    """So that a number cannot be left out unseen."""
    assert {column for row in RECIPE_ROWS.values() for column in row} == {*FIELDS, *NAMES, *NO_FIELD}
    assert not FIELDS.keys() & NO_FIELD.keys()


@pytest.mark.parametrize("recipe", PUBLIC, ids=lambda recipe: recipe.name)
def test_a_recipe_is_called_and_sized_as_the_public_one(recipe: Recipe) -> None:
    row = RECIPE_ROWS[recipe.name]
    assert [recipe.alias] == (row["aliases"] or [None])
    assert (recipe.task, recipe.world_size, recipe.hardware, recipe.stem) == (
        row["task"],
        row["num_gpus"],
        row["hardware"],
        row["model_stem"],
    )
    assert (recipe.precision, recipe.variant or None) == (row["precision"], row["variant"])


@pytest.mark.parametrize("recipe", PUBLIC, ids=lambda recipe: recipe.name)
def test_its_numbers_are_the_public_ones(recipe: Recipe) -> None:
    """As resolved; where the public recipe says nothing, nothing but the default is said here either."""
    row, config, built = RECIPE_ROWS[recipe.name], resolved(recipe), recipe.build()
    differing = {}
    for column, path in FIELDS.items():
        wanted = expected(recipe, path, row[column])
        if wanted is None:
            section, name = path.split(".", 1)
            declared = section_classes()[section].model_fields if getattr(built, section) is not None else {}
            default = declared.get(name)
            here, wanted = value(built, path), default and default.default
        else:
            here = value_or_default(config, path)
        if here != wanted and is_read(config, path):
            differing[path] = (here, wanted)
    assert differing == {}


@pytest.mark.parametrize("recipe", PUBLIC, ids=lambda recipe: recipe.name)
def test_what_it_sets_of_the_model_is_set_here(recipe: Recipe) -> None:
    """Also fields that have no column of their own."""
    config = resolved(recipe)
    for name, public in RECIPE_ROWS[recipe.name]["model_set_by_recipe"].items():
        ours = RENAMED.get(name, name)
        known = ours in ModelConfig.model_fields or ours in HONOURED
        assert known or name in NO_MODEL_FIELD, name
        path = f"model.{ours}"
        if name in NO_MODEL_FIELD or public in (None, "<long>") or not is_read(config, path):
            continue
        assert value_or_default(config, path) == expected(recipe, path, public), path


SET_SOMEWHERE = {name for row in RECIPE_ROWS.values() for name in row["model_set_by_recipe"]}
OF_THE_MODEL = {
    *("rotary_base", "rotary_scaling_factor", "mtp_num_layers", "mtp_loss_scaling_factor", "apply_rope_fusion"),
    *("vocab_size", "position_embedding_type", *YARN_FIELDS),
}
"""Set by some recipes, and part of others' architecture."""


@pytest.mark.parametrize("recipe", PUBLIC, ids=lambda recipe: recipe.name)
def test_what_only_others_set_of_the_model_is_the_default_here(recipe: Recipe) -> None:
    config = resolved(recipe)
    names = SET_SOMEWHERE - RECIPE_ROWS[recipe.name]["model_set_by_recipe"].keys() - NO_MODEL_FIELD.keys()
    names = {RENAMED.get(name, name) for name in names}
    differing = {
        name: value_or_default(config, f"model.{name}")
        for name in names - OF_THE_MODEL
        if name not in FIELDS_OF_COLUMNS and value_or_default(config, f"model.{name}") != default_of(name)
    }
    assert differing == {}


@pytest.mark.parametrize("recipe", PUBLIC, ids=lambda recipe: recipe.name)
def test_its_environment_is_the_public_one(recipe: Recipe) -> None:
    public = {name: str(text) for name, text in RECIPE_ROWS[recipe.name]["env_vars"].items()}
    assert resolved(recipe).env_vars == public


def public_value(name: str, path: str) -> Any:
    """In a column of its own, or among what the recipe sets of the model."""
    column = next((column for column, field in FIELDS.items() if field == path), None)
    row = RECIPE_ROWS[name]
    return row[column] if column else row["model_set_by_recipe"][path.removeprefix("model.")]


def test_what_differs_from_the_public_recipe_is_still_so() -> None:
    """An exception that is none any more does not stay in the table."""
    for (name, path), here in DIFFERS.items():
        assert public_value(name, path) != here, (name, path)
    for path, here in FINETUNING_DIFFERS.items():
        assert any(public_value(name, path) != here for name, row in RECIPE_ROWS.items() if row["task"] != "pretrain")


@pytest.mark.parametrize("name", WAITING)
def test_a_recipe_that_waits_is_answered_by_name_with_its_reason(name: str) -> None:
    """With what there is of that model in its place."""
    assert find_recipe(name) is None
    with pytest.raises(ConfigError) as caught:
        resolve(Selection(recipe=name), [], world_size=None, device="cuda")
    stem = next(row["model_stem"] for key, row in RECIPE_ROWS.items() if name in (key, *row["aliases"]))
    assert str(caught.value).startswith(
        f"--recipe {name} is not available yet, for {WAITING[name]}; available: {stem}_"
    )


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_every_recipe_resolves_at_its_own_size_without_a_warning_but_of_fp8(recipe: Recipe, device: Any) -> None:
    run = resolve(Selection(recipe=recipe.shown), [], world_size=None, device=device)
    assert run.world_size == recipe.world_size
    recorded = "recorded, but not acted on by this version: mixed_precision.fp8_param_gather=true"
    assert set(run.warnings) <= ({recorded} if device == "cuda" and recipe.precision != "bf16" else set())
    assert run.num_microbatches >= 1
    assert run.canonical == (device == "cuda")
