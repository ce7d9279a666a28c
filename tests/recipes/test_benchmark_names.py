"""Which public benchmark recipes are here, by name."""

import pytest
from public_benchmarks import NAMES

from trainwright.recipes import ConfigError, Selection, resolve
from trainwright.recipes.benchmarks import benchmarks, find_benchmark
from trainwright.recipes.benchmarks.row import NAME
from trainwright.recipes.planned import is_planned_recipe

STEMS = {
    *("llama3_8b", "llama3_70b", "llama31_405b", "qwen3_30b_a3b", "qwen3_235b_a22b", "gpt_oss_20b", "gpt_oss_120b"),
    *("deepseek_v3", "kimi_k2"),
}
"""Models whose benchmarks are here, every one of them."""

PUBLIC = {name: family for family, names in NAMES.items() for name in names}
HERE = [recipe.name for recipe in benchmarks()]


def stem_of(name: str) -> str:
    """The model in a benchmark's name, whose other parts are cut off at its task."""
    found = NAME.search(name.removesuffix("_config"))
    assert found is not None, name
    return name[: found.start() - 1]


def test_every_benchmark_here_is_a_public_one_once() -> None:
    assert len(HERE) == len(set(HERE))
    assert set(HERE) <= set(PUBLIC)


def test_every_public_benchmark_of_these_models_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    """What the project does not have yet is printed, family by family (`pytest -s`)."""
    missing = [name for name in PUBLIC if find_benchmark(name) is None]
    with capsys.disabled():
        print()
        for family in NAMES:
            stems = sorted({stem_of(name) for name in missing if PUBLIC[name] == family})
            count = sum(PUBLIC[name] == family for name in missing)
            if count:
                print(f"not here yet, {family}: {count} benchmarks of {', '.join(stems)}")
    assert {stem_of(name) for name in missing} & STEMS == set()
    assert {stem_of(name) for name in HERE} == STEMS
    assert (len(HERE), len(missing)) == (292, 146)


@pytest.mark.parametrize("family", NAMES)
def test_a_benchmark_that_is_not_here_yet_is_answered_by_name(family: str) -> None:
    missing = [name for name in NAMES[family] if find_benchmark(name) is None]
    assert all(is_planned_recipe(name) for name in missing)
    for name in missing[:1]:
        with pytest.raises(ConfigError, match=f"--recipe {name} is not available yet; nearest available: "):
            resolve(Selection(recipe=name), [], world_size=None, device="cuda")


def test_no_name_is_misspelt_into_a_benchmark() -> None:
    """Names are exact: no other form of one selects it."""
    for name in HERE[::40]:
        assert find_benchmark(name.removesuffix("_config")) is None
        assert find_benchmark(name.upper()) is None
