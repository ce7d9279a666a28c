"""The checked-in catalogue of Megatron Core's fields. That it matches the installed class is a test of the runner."""

from typing import Any

import pytest
from recipes_runs import run

from trainwright.recipes import catalogue
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.device_layer import LAYERS
from trainwright.recipes.library import RECIPES
from trainwright.recipes.validate.extras import HONOURED, SET_ELSEWHERE


def test_it_lists_the_fields_of_the_class() -> None:
    assert len(catalogue.field_names()) > 250
    assert not set(catalogue.field_names()) & set(catalogue.not_settable())


@pytest.mark.parametrize(
    ("name", "annotation"),
    [
        ("fp8_margin", int),
        ("softmax_scale", float | None),
        ("window_size", list[int] | None),
        ("overlap_p2p_comm", bool),
    ],
)
def test_a_field_has_its_type(name: str, annotation: Any) -> None:
    assert catalogue.field_type(name) == annotation


def test_a_function_is_not_settable() -> None:
    assert catalogue.not_settable()["init_method"] == "a function"
    assert "activation_func" in catalogue.not_settable()


def test_every_default_has_the_type_of_its_field() -> None:
    """Repeating the default is never an error."""
    names = [name for name in catalogue.field_names() if name not in {*ModelConfig.model_fields, *SET_ELSEWHERE}]
    words = [f"model.{name}={_typed(catalogue.default(name))}" for name in names]
    assert len(words) > 150
    assert run(*words, device="cuda").config


def _typed(default: Any) -> str:
    if default is None:
        return "null"
    return str(default).lower() if isinstance(default, bool) else f"{default}" if default != "" else "''"


def test_what_acts_and_what_is_owned_elsewhere_exist() -> None:
    assert set(catalogue.field_names()) >= HONOURED | set(SET_ELSEWHERE)


def test_recipes_and_devices_set_only_fields_that_act() -> None:
    """What they bring along is held to the same rule as what a user types."""
    extras = {name for recipe in RECIPES for name in recipe.build().model.model_extra or {}}
    extras |= {path.removeprefix("model.") for layer in LAYERS.values() for path in layer if path.startswith("model.")}
    assert extras <= HONOURED | set(ModelConfig.model_fields) | {"masked_softmax_fusion"}
