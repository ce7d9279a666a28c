"""Sections inside `dataset`: typed as a path or as a dictionary, and the same in every view of a configuration."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes_runs import GPT, SFT, refusal, run, says, value

from trainwright.recipes import ConfigError, from_yaml, shaping_differences, to_yaml
from trainwright.recipes.comparison import differences, listed

SPLIT = "dataset.hf_dataset.split"


@pytest.mark.parametrize(
    ("word", "path", "expected"),
    [
        (f'{SPLIT}="train[:64]"', SPLIT, "train[:64]"),
        (f"{SPLIT}=train[:64]", SPLIT, "train[:64]"),
        ("+dataset.hf_dataset.revision=0123", "dataset.hf_dataset.revision", "0123"),
        ("dataset.hf_dataset.validation_proportion=0.2", "dataset.hf_dataset.validation_proportion", 0.2),
        ('dataset.preprocessing.separator="\n"', "dataset.preprocessing.separator", "\n"),
        ("dataset.preprocessing={separator:'\n'}", "dataset.preprocessing.separator", "\n"),
        ("dataset={preprocessing:{separator:'\n'}}", "dataset.preprocessing.separator", "\n"),
        ("dataset.preprocessing.separator=", "dataset.preprocessing.separator", ""),
        ('dataset.preprocessing.separator="  "', "dataset.preprocessing.separator", "  "),
        ("dataset.preprocessing={add_bos:true,truncation_side:left}", "dataset.preprocessing.add_bos", True),
        (
            "dataset={enable_offline_packing:true,offline_packing_specs:{pad_seq_to_mult:4}}",
            "dataset.offline_packing_specs.pad_seq_to_mult",
            4,
        ),
        ("dataset.dataset_kwargs={pad_to_max_length:true}", "dataset.dataset_kwargs.pad_to_max_length", True),
        ("dataset.dataset_kwargs.pad_to_max_length=false", "dataset.dataset_kwargs.pad_to_max_length", False),
    ],
)
def test_a_leaf_is_set_by_path_and_by_dictionary(word: str, path: str, expected: Any) -> None:
    """The value, its source, and the way through YAML."""
    resolved = run(word, recipe=SFT)
    assert value(resolved.config, path) == expected
    assert resolved.sources[path] == "override"
    assert set(resolved.sources) == set(listed(resolved.config))
    assert from_yaml(to_yaml(resolved.config)) == resolved.config


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("dataset.preprocessing.style=cat", ("prompt-completion or chat", "'chat'")),
        ("dataset.hf_dataset.validation_proportion=1", ("dataset.hf_dataset.validation_proportion=1.0", "below 1")),
        ("dataset.hf_dataset.path=null", ("dataset.hf_dataset.path cannot be null",)),
        ("dataset.hf_dataset=squad", ("dataset.hf_dataset is a section",)),
        ("dataset.offline_packing_specs.pad_seq_to_mult=0", ("pad_seq_to_mult=0", "at least 1")),
        ("dataset.offline_packing_specs.algorithm=first_fit", ("first_fit_decreasing or best_fit", "'best_fit'")),
        ("dataset.preprocessing.broken_rows=ignore", ("refuse or skip",)),
        ("dataset.dataset_kwargs.pad_to_max_length=1,2", ("several values",)),
    ],
)
def test_a_leaf_of_another_type_is_refused_by_its_whole_path(word: str, parts: tuple[str, ...]) -> None:
    says(refusal(word, recipe=SFT), *parts)


def test_a_null_section_comes_to_life_with_its_defaults() -> None:
    """And goes away again; the last word wins."""
    words = ("dataset.hf_dataset=null", "dataset.hf_dataset.path=/local/clone")
    opened = run(*words, "dataset.do_validation=false", recipe=SFT)
    assert value(opened.config, SPLIT) == "train"
    assert opened.sources[SPLIT] == "default"
    assert value(opened.config, "dataset.hf_dataset.validation_proportion") is None
    says(refusal(*words[::-1], recipe=SFT), "needs dataset.hf_dataset.path")
    says(refusal(words[0], "dataset.hf_dataset.split=x", recipe=SFT), "dataset.hf_dataset.path is missing")


def test_differences_name_the_leaf() -> None:
    before = run(recipe=SFT).config
    after = run("dataset.preprocessing.add_bos=true", f"{SPLIT}=validation", recipe=SFT).config
    expected = [f"{SPLIT}: train -> validation", "dataset.preprocessing.add_bos: false -> true"]
    assert differences(before, after) == shaping_differences(before, after) == expected
    assert f"{SPLIT}: null -> train" in differences(run(recipe=GPT).config, before)


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("separator: ' '", "seperator: ' '", ("dataset.preprocessing.seperator", "'separator'")),
        ("style: prompt-completion", "style: 5", ("dataset.preprocessing.style=5",)),
        ("    split: train", "    split: [a]", ("dataset.hf_dataset.split",)),
        ("    path: rajpurkar/squad\n", "", ("dataset.hf_dataset.path is missing",)),
        ("  preprocessing:\n", "  preprocessing: null\n  x:\n", ("dataset.preprocessing is a section",)),
        ("  dataset_kwargs: {}", "  dataset_kwargs: 5", ("dataset.dataset_kwargs",)),
    ],
)
def test_a_broken_file_is_refused_by_the_whole_path(old: str, new: str, parts: tuple[str, ...]) -> None:
    text = to_yaml(run(recipe=SFT).config)
    assert text.count(old) == 1
    with pytest.raises(ConfigError) as caught:
        from_yaml(text.replace(old, new))
    says(str(caught.value), *parts)


def test_a_configuration_from_before_these_sections_is_read() -> None:
    """A run directory of an earlier version resumes: what it does not hold has its default."""
    config = run(recipe=GPT).config
    lines = to_yaml(config).splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if line.startswith("  dataset_root:"))
    last = next(number for number, line in enumerate(lines) if line.startswith("  dataloader_type:"))
    text = (
        "".join(lines[:first] + lines[last:]).replace("  drop_last: false\n", "").replace("  dataset_kwargs: {}\n", "")
    )
    assert "preprocessing" not in text and "dataset_kwargs" not in text
    assert from_yaml(text) == config


PATHS = st.sampled_from(
    [f"dataset.hf_dataset.{name}" for name in ("path", "name", "split", "revision", "test_split")]
    + [f"dataset.preprocessing.{name}" for name in ("separator", "chat_template")]
)


@given(PATHS, st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12))
def test_any_text_arrives_in_a_leaf(path: str, text: str) -> None:
    """Property: quoted text comes through the grammar, the draft and YAML unchanged, wherever it stands."""
    if text.endswith("\\") or '\\"' in text or "\\'" in text or not text.strip():
        return
    quoted = text.replace('"', '\\"')
    config = run(f'{path}="{quoted}"', recipe=SFT).config
    assert value(config, path) == text
    assert from_yaml(to_yaml(config)) == config
