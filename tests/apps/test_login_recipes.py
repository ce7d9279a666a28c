"""`trainwright recipes`: what it prints, and what it says when something is wrong."""

import importlib.util
from typing import Any

import pytest

from trainwright.recipes import ConfigError, Selection, from_yaml, resolve
from trainwright.recipes.benchmarks import benchmarks
from trainwright.recipes.families import FAMILIES, family_of
from trainwright.recipes.page import page
from trainwright.recipes.selection import all_recipes
from trainwright_login.preflight import MissingExtra
from trainwright_login.recipes import run

GPT = "vanilla_gpt_pretrain_config"
BENCHMARK = "llama3_8b_pretrain_64gpu_h100_bf16_config"


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(words) == 0
    return capsys.readouterr().out


def test_list_names_every_recipe_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Of both catalogues, with the word that selects it."""
    lines = printed(capsys, "list").splitlines()
    assert lines[0].split() == ["NAME", "MODEL", "FAMILY", "TASK", "GPUS", "HARDWARE", "PRECISION", "CATALOGUE"]
    assert [line.split()[0] for line in lines[1:]] == [recipe.shown for recipe in all_recipes()]
    assert {line.split()[-1] for line in lines[1:]} == {"library", "benchmark"}


@pytest.mark.parametrize(
    ("words", "keep"),
    [
        (("--family", "llama"), lambda recipe: family_of(recipe.name) == "llama"),
        (("--hardware", "b200"), lambda recipe: recipe.hardware == "b200"),
        (("--task", "sft"), lambda recipe: recipe.task == "sft"),
        (("--gpus", "64"), lambda recipe: recipe.world_size == 64),
        (("--gpus", "64", "--hardware", "h100"), lambda recipe: (recipe.world_size, recipe.hardware) == (64, "h100")),
        (("--task", "sft", "--hardware", "vr200"), lambda recipe: (recipe.task, recipe.hardware) == ("sft", "vr200")),
    ],
)
def test_list_keeps_what_is_asked_for(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], keep: Any) -> None:
    """All that is asked for together, which may be nothing."""
    names = [line.split()[0] for line in printed(capsys, "list", *words).splitlines()[1:]]
    assert names == [recipe.shown for recipe in all_recipes() if keep(recipe)]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--family", "lama"), "--family lama: no recipe has it; there are deepseek, glm, .*did you mean 'llama'"),
        (("--hardware", "h200"), "--hardware h200: no recipe has it; there are b200, b300, "),
        (("--task", "lora"), "--task lora: no recipe has it; there are peft, pretrain, sft"),
        (("--gpus", "7"), "--gpus 7: no recipe has it; there are 1, 2, "),
        (("--gpus", "many"), "--gpus many: no recipe has it"),
    ],
)
def test_list_says_what_there_is_where_nothing_can_match(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        run(["list", *words])
    assert caught.value.exit_code == 2


def test_every_recipe_has_a_family() -> None:
    assert {family_of(recipe.name) for recipe in all_recipes()} == set(FAMILIES)


def rows(text: str) -> dict[str, str]:
    """Heading -> text of a page; several lines of one heading are joined."""
    found: dict[str, str] = {}
    heading = ""
    for line in text.splitlines():
        heading = line[:13].strip() or heading
        found[heading] = " ".join(filter(None, (found.get(heading), line[13:])))
    return found


def test_show_is_a_page_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """Worked by hand for Llama 3 8B: 8,030,261,248 parameters; 1024 sequences of 8192 tokens on 64 GPUs."""
    shown = rows(printed(capsys, "show", BENCHMARK))
    assert shown["recipe"] == BENCHMARK
    assert shown["kind"] == "benchmark, llama, pretrain, llm_step"
    assert shown["written for"] == "64 x h100, bf16"
    assert shown["model"] == "32 blocks of 4096, 32 heads of 128 in 8 groups, feed-forward 14336"
    assert shown["topology"] == "64 ranks: TP 1, PP 1, CP 2, DP 32"
    assert shown["batch"].startswith("1,024 sequences of 8,192 tokens per step: 32 micro-batches of 1 on each")
    assert shown["parameters"] == "8,030,261,248"
    assert shown["tokens"] == "8,388,608 per step, 419,430,400 in all"
    # 6 * (8,030,261,248 - 128,256 * 4096 of the embedding - 65 norms of 4096) a token, and attention over 8192 of them.
    operations = 6 * ((8_030_261_248 - 128_256 * 4096 - 65 * 4096) * 2**23 + 32 * 4096 * 2**23 * 8192)
    assert shown["operations"].startswith(f"{operations:.4g} model FLOPs per step")
    assert "GiB of the 80.00 GiB of h100" in shown["memory"]
    assert all(f"{name} " in shown["memory"] for name in ("weights", "gradients", "optimizer", "activations"))
    config = resolve(Selection(recipe=BENCHMARK), [], world_size=None, device="cuda").config
    assert shown["environment"].split() == [f"{name}={value}" for name, value in sorted(config.env_vars.items())]
    assert not shown.keys() & {"different", "warning"}


def test_show_says_in_what_a_run_is_not_its_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    shown = rows(printed(capsys, "show", BENCHMARK, "rng.seed=7", "--world-size", "32"))
    assert "world size: 64 -> 32" in shown["different"]
    assert "train.global_batch_size: 1024 -> 512 (weak scaling)" in shown["different"]
    assert "rng.seed: 1234 -> 7 (override)" in shown["different"]


def test_a_recipe_of_any_kind_has_a_page() -> None:
    """With its sizes, whatever its tokenizer, topology and task."""
    for recipe in all_recipes()[::12]:
        shown = dict(page(resolve(Selection(recipe=recipe.shown), [], world_size=None, device="cuda")))
        assert {"model", "topology", "batch", "parameters", "tokens", "operations", "memory"} <= shown.keys(), recipe


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_show_prints_the_resolved_configuration(capsys: pytest.CaptureFixture[str], device: Any) -> None:
    shown = printed(capsys, "show", GPT, "rng.seed=7", "--device", device, "--yaml")
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


def test_diff_of_two_benchmarks_is_what_their_rows_say(capsys: pytest.CaptureFixture[str]) -> None:
    """From 8 GPUs to 64: the size, and the batch that goes with it."""
    other = BENCHMARK.replace("64gpu", "8gpu")
    assert printed(capsys, "diff", other, BENCHMARK).splitlines() == [
        "world size: 8 -> 64",
        "train.global_batch_size: 128 -> 1024",
    ]


@pytest.mark.parametrize("recipe", benchmarks()[::40], ids=lambda recipe: recipe.name)
def test_a_misspelt_name_is_answered_with_the_nearest(recipe: Any) -> None:
    """Where a digit of the GPUs, a letter of the hardware or the precision is wrong."""
    for wrong in (recipe.name.replace("gpu_", "gpus_"), recipe.name.removesuffix("_config")):
        with pytest.raises(ConfigError, match=f"no such recipe; did you mean '{recipe.name}'"):
            run(["show", wrong])


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
