"""The words of `dataset.data_path` and `dataset.split`."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.datasets import DataError
from trainwright.datasets.blend import Blend, parse_blend, parse_split, split_sources
from trainwright.recipes.config.data import DatasetConfig


@pytest.mark.parametrize(
    ("value", "blend"),
    [
        ("a", Blend(("a",), None)),
        (["a"], Blend(("a",), None)),
        ("1.0 a", Blend(("a",), None)),
        ("a b c", Blend(("a", "b", "c"), None)),
        (["my corpus", "b"], Blend(("my corpus", "b"), None)),
        ("30 a 70 b", Blend(("a", "b"), (30.0, 70.0))),
        ([0.3, "a", "7e-1", "b"], Blend(("a", "b"), (0.3, 0.7))),
        (["1e5x", "nano"], Blend(("1e5x", "nano"), None)),
    ],
    ids=str,
)
def test_a_blend_is_read_as_written(value: Any, blend: Blend) -> None:
    assert parse_blend(value, "dataset.data_path") == blend


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("30 a not_a_weight b", "'not_a_weight' stands where a weight is expected"),
        ("a 0.3 b 0.7", "'a' stands where a weight is expected"),
        ([0.3, "a", "b"], "'b' stands where a weight is expected"),
        ([0.3, 0.7, "a", "b"], "'0.7' stands where a prefix is expected"),
        ("0.3 a 0.7", "weight '0.7' has no prefix after it"),
        ([0, "a", 1, "b"], "weight '0' is not a number above 0"),
        ("-1 a 2 b", "weight '-1' is not a number above 0"),
        ("nan a 1 b", "weight 'nan' is not a number above 0"),
        ([float("inf"), "a", 1, "b"], "weight 'inf' is not a number above 0"),
        ("0 a", "weight '0' is not a number above 0"),
        ("", "is empty"),
        ([], "is empty"),
        ([" "], "' ' is not a prefix"),
        ("a b a", "'a' is named twice"),
        ("1 a 2 a", "'a' is named twice"),
    ],
    ids=str,
)
def test_a_blend_with_a_wrong_word_is_refused_with_that_word(value: Any, says: str) -> None:
    with pytest.raises(DataError, match=r"^dataset\.data_path") as error:
        parse_blend(value, "dataset.data_path")
    assert says in str(error.value)


@given(
    st.lists(
        st.tuples(st.floats(1e-3, 1e3), st.text("abc/._-", min_size=3)),
        min_size=2,
        max_size=5,
        unique_by=lambda pair: pair[1],
    )
)
def test_a_weighted_blend_says_the_same_as_list_and_as_string(pairs: list[tuple[float, str]]) -> None:
    words = [word for pair in pairs for word in pair]
    blend = parse_blend(words, "f")
    assert blend == parse_blend(" ".join(map(str, words)), "f")
    assert (blend.weights, blend.prefixes) == tuple(zip(*pairs, strict=True))


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("1", (1, 0, 0)),
        ("50, 50", (0.5, 0.5, 0)),
        ("8,1,1", (0.8, 0.1, 0.1)),
        ("0,1,0", (0, 1, 0)),
        ("1e1,0,.0", (1, 0, 0)),
    ],
)
def test_a_split_is_shares_of_one(text: str, shares: tuple[float, ...]) -> None:
    assert parse_split(text) == shares


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("-1,1,0", "'-1' is not a share"),
        ("90,abc5,5", "'abc5' is not a share"),
        ("-0,1", "'-0' is not a share"),
        ("nan,1", "'nan' is not a share"),
        ("inf", "'inf' is not a share"),
        ("", "'' is not a share"),
        ("90,,10", "'' is not a share"),
        ("90;10", "'90;10' is not a share"),
        ("0,0,0", "positive, finite sum"),
        ("1e308,1e308", "positive, finite sum"),
        ("1,1,1,1", "has 4 shares"),
    ],
)
def test_a_split_with_a_wrong_share_is_refused_with_it(text: str, says: str) -> None:
    with pytest.raises(DataError) as error:
        parse_split(text)
    assert says in str(error.value)
    assert repr(text) in str(error.value)


def dataset(**words: Any) -> DatasetConfig:
    return DatasetConfig(kind="megatron-indexed", seq_length=8, **words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({}, "dataset.data_path is not set"),
        ({"data_path": "a", "valid_data_path": "b"}, "dataset.data_path and dataset.valid_data_path are both set"),
        ({"valid_data_path": "b"}, "dataset.train_data_path is not set, but dataset.valid_data_path is"),
        ({"data_path": "a", "split": None}, "dataset.split is not set"),
        ({"train_data_path": "1 a x b"}, "dataset.train_data_path: 'x' stands where a weight"),
    ],
)
def test_prefixes_are_named_in_one_way(words: dict[str, Any], says: str) -> None:
    with pytest.raises(DataError, match=says):
        split_sources(dataset(**words))


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=3).filter(any), st.integers(1, 10**7))
def test_splits_share_out_every_sequence_once(shares: list[int], sequences: int) -> None:
    sources = split_sources(dataset(data_path="a", split=",".join(map(str, shares))))
    bounds = [source.rows(sequences) for source in sources.values()]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == sequences
    assert all(left[1] == right[0] for left, right in pairwise(bounds))
