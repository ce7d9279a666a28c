"""A configuration survives the way to YAML and back, and a file that a person edited is read as YAML 1.2."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes_runs import LLAMA, run, value

from trainwright.recipes import ConfigError, from_yaml, to_yaml

TEXT = st.text(alphabet=st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)
NUMBER = st.floats(min_value=1e-300, max_value=1e300)


@given(TEXT, NUMBER, st.integers(0, 10**18), st.lists(st.one_of(TEXT, NUMBER, st.integers()), max_size=4), TEXT)
def test_any_value_comes_back(text: str, number: float, whole: int, blend: list[str | float | int], name: str) -> None:
    """Property: text that looks like anything else, tiny and huge numbers, mixed lists, any key."""
    config = run(recipe=LLAMA).config
    config = config.model_copy(
        update={
            "checkpoint": config.checkpoint.model_copy(update={"save": text}),
            "optimizer": config.optimizer.model_copy(update={"lr": number}),
            "dataset": config.dataset.model_copy(update={"random_seed": whole, "data_path": blend}),
            "env_vars": {name: text},
        }
    )
    assert from_yaml(to_yaml(config)) == config


@pytest.mark.parametrize(
    "text", ["010", "1e5", "on", "12:30:45", "2026-01-01", "~", "null", "true", ".nan", "0x1f", ""]
)
def test_text_that_looks_like_something_else_stays_text(text: str) -> None:
    config = run().config.model_copy(update={"env_vars": {"A": text, text or "B": "x"}})
    assert from_yaml(to_yaml(config)).env_vars == config.env_vars


@pytest.mark.parametrize(
    ("old", "new", "path", "expected"),
    [
        ("lr: 0.0003", "lr: 1e-3", "optimizer.lr", 1e-3),
        ("lr: 0.0003", "lr: 1", "optimizer.lr", 1.0),
        ("save: null", "save: 2026-01-01", "checkpoint.save", "2026-01-01"),
        ("save: null", "save: on", "checkpoint.save", "on"),
        ("save: null", "save: 12:30:45", "checkpoint.save", "12:30:45"),
        ("seed: 1234\n  te_rng", "seed: 010\n  te_rng", "rng.seed", 10),
    ],
)
def test_an_edited_file_is_read_as_its_writer_meant(old: str, new: str, path: str, expected: object) -> None:
    text = to_yaml(run().config)
    assert text.count(old) == 1
    assert value(from_yaml(text.replace(old, new)), path) == expected


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("train_iters: 300000", "train_iters: many", ("train.train_iters=many", "integer")),
        ("train_iters: 300000", "train_iters: 0", ("train.train_iters=0", "at least 1")),
        ("train_iters: 300000", "train_itres: 1", ("train.train_itres", "'train_iters'")),
        ("hidden_size: 768", "hidden_siz: 768", ("model.hidden_siz", "'hidden_size'")),
        ("clip_grad: 1.0", "clip_grad: .inf", ("optimizer.clip_grad",)),
        ("check_for_nan_in_loss: true", "check_for_nan_in_loss: on", ("train.check_for_nan_in_loss=on", "boolean")),
        ("train:\n", "train: 5\nx:\n", ("not a mapping",)),
        ("train:\n", "train: [\n", ("not YAML",)),
        ("train:\n", "trian:\n", ("no section 'trian'", "'train'")),
    ],
)
def test_a_broken_file_is_refused_by_field(old: str, new: str, parts: tuple[str, ...]) -> None:
    text = to_yaml(run().config)
    assert text.count(old) == 1
    with pytest.raises(ConfigError) as caught:
        from_yaml(text.replace(old, new))
    assert not [part for part in parts if part not in str(caught.value)], str(caught.value)
    assert "\n" not in str(caught.value)
