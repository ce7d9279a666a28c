"""`trainwright recipes`: what it prints, and what it says when something is wrong."""

import importlib.util
from typing import Any

import pytest

from trainwright.recipes import ConfigError, Selection, from_yaml, resolve
from trainwright.recipes.library import RECIPES
from trainwright_login.preflight import MissingExtra
from trainwright_login.recipes import run

GPT = "vanilla_gpt_pretrain_config"


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(words) == 0
    return capsys.readouterr().out


def test_list_names_every_recipe_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "list").splitlines()
    assert lines[0].split() == ["NAME", "MODEL", "TASK", "GPUS", "HARDWARE"]
    assert [line.split()[0] for line in lines[1:]] == [recipe.shown for recipe in RECIPES]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_show_prints_the_resolved_configuration(capsys: pytest.CaptureFixture[str], device: Any) -> None:
    shown = printed(capsys, "show", GPT, "rng.seed=7", "--device", device)
    assert from_yaml(shown) == resolve(Selection(recipe=GPT), ["rng.seed=7"], world_size=None, device=device).config


def test_show_tells_where_each_value_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "show", GPT, "rng.seed=7", "--sources").splitlines()
    for line in ("rng.seed=7  # override", "model.num_layers=12  # recipe", "model.kv_channels=64  # derived"):
        assert line in lines


def test_diff_prints_only_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "diff", GPT, "rng.seed=7", "optimizer.lr=1e-3").splitlines() == [
        "optimizer.lr: 0.0003 -> 0.001",
        "rng.seed: 1234 -> 7",
    ]
    assert "model.num_layers: 12 -> 16" in printed(capsys, "diff", GPT, "llama32_1b_pretrain_config").splitlines()
    assert printed(capsys, "diff", GPT, GPT) == ""


def test_show_checks_the_topology_for_the_ranks_named() -> None:
    word = "model.tensor_model_parallel_size=2"
    assert run(["show", GPT, word, "--world-size", "2"]) == 0
    with pytest.raises(ConfigError, match="world size 1 is not a multiple of 2"):
        run(["show", GPT, word])


def test_a_recipe_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="no such recipe"):
        run(["show", "vanilla_gpt_pretrain_confg"])


def test_without_the_recipes_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainwright_login.recipes.find_spec", lambda name: None)
    assert importlib.util.find_spec("trainwright.recipes")
    with pytest.raises(MissingExtra, match=r"trainwright\[preflight\]") as caught:
        run(["list"])
    assert caught.value.exit_code == 2
