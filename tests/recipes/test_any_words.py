"""Whatever is typed, the answer is a run or one line."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from recipes_runs import GPT, SFT, refusal, run

from trainwright.recipes import FLAGS, ConfigError, from_yaml, to_yaml
from trainwright.recipes.fields import section_fields

PATHS = sorted(f"{section}.{field}" for section, fields in section_fields().items() for field in fields)
VALUES = st.one_of(
    st.text(max_size=12),
    st.text(alphabet=string.digits + "eE.+-_[]{}(),:'\"\\ " + string.ascii_lowercase, max_size=16),
    st.integers(-2, 10**30).map(str),
    st.floats().map(str),
    st.sampled_from(["true", "null", "[]", "{}", "[1]", "None", "1,2", "nan", "int(x)", "sort(3,1)", "1e999", "''"]),
)


@given(st.sampled_from(PATHS), VALUES, st.sampled_from(["cpu", "cuda"]), st.sampled_from([GPT, SFT]))
@example("train.train_iters", "9" * 5000, "cpu", GPT)
@example("optimizer.lr", "9" * 5000, "cpu", GPT)
@example("profiling.profile_ranks", "[" * 500, "cpu", GPT)
@example("profiling.profile_ranks", "[" * 300 + "]" * 300, "cpu", GPT)
@example("checkpoint.save", "a\nb", "cpu", GPT)
@example("train.train_iters", "a\nb", "cpu", GPT)
@example("rng.seed", "int(${x})", "cpu", GPT)
@example("dataset.hf_dataset", "{}", "cpu", SFT)
@example("dataset.dataset_kwargs", "{'a.b':1}", "cpu", SFT)
@example("dataset.dataset_kwargs", "{'':1}", "cpu", SFT)
@example("dataset.dataset_root", "[]", "cpu", SFT)
@example("dataset", "{hf_dataset:null,dataset_kwargs:{}}", "cpu", SFT)
def test_a_field_takes_a_value_or_says_why_not(path: str, text: str, device: str, recipe: str) -> None:
    """Property: nothing but ConfigError leaves `resolve`, in one line; and what is accepted survives YAML."""
    try:
        resolved = run(f"{path}={text}", device=device, recipe=recipe)
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1
        return
    assert from_yaml(to_yaml(resolved.config)) == resolved.config


@given(st.sampled_from([flag.field for flag in FLAGS]), VALUES)
def test_a_flag_takes_a_value_or_says_why_not(path: str, text: str) -> None:
    try:
        run(flags={path: text})
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize("word", ["env_vars={'a=b':c}", "env_vars={'':c}"])
def test_a_variable_that_no_system_takes_is_refused(word: str) -> None:
    assert "cannot be set" in refusal(word)
