"""What `dataset.data_path` and `dataset.split` say: prefixes, weights, shares. Words only; no file is opened."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from trainwright.datasets.errors import DataError

if TYPE_CHECKING:
    from trainwright.recipes.config.data import DatasetConfig

SplitName = Literal["train", "valid", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "valid", "test")

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE)


@dataclass(frozen=True)
class Blend:
    """Prefixes of `.bin`/`.idx` pairs, and how much each contributes."""

    prefixes: tuple[str, ...]
    weights: tuple[float, ...] | None
    """Positive and finite, one for each prefix; None: each contributes as much as it holds."""


@dataclass(frozen=True)
class SplitSource:
    """Where the sequences of one split come from."""

    blend: Blend
    begin: float
    end: float
    """The part [begin, end) of each prefix's sequences, as fractions of 1."""
    field: str
    """The field that named it, for messages."""

    def rows(self, sequences: int) -> tuple[int, int]:
        """First and one past the last sequence of the split in a pair of so many (rounded as Megatron Core does)."""
        return round(self.begin * sequences), round(self.end * sequences)


def parse_blend(value: str | Sequence[str | float | int], field: str) -> Blend:
    """One prefix, a list of prefixes, or weights and prefixes in turn; a string is split at white space.

    Raises:
        DataError: a word stands where it cannot; it is named.
    """
    words = value.split() if isinstance(value, str) else list(value)
    if not words:
        raise DataError(f"{field} is empty: it takes a prefix of .bin/.idx files, or a list of them")
    numeric = [not isinstance(word, str) or _NUMBER.fullmatch(word.strip()) is not None for word in words]
    if not any(numeric):
        prefixes, weights = tuple(str(word) for word in words), None
    else:
        for place, (word, is_number) in enumerate(zip(words, numeric, strict=True)):
            if is_number == (place % 2 == 1):
                wanted = "a prefix" if place % 2 else "a weight"
                raise DataError(
                    f"{field}: {str(word)!r} stands where {wanted} is expected (weight prefix weight prefix ...)"
                )
        if len(words) % 2:
            raise DataError(f"{field}: weight {str(words[-1])!r} has no prefix after it")
        prefixes = tuple(str(word) for word in words[1::2])
        weights = tuple(_weight(word, field) for word in words[0::2])
    for prefix in prefixes:
        if not prefix.strip():
            raise DataError(f"{field}: {prefix!r} is not a prefix")
        if prefixes.count(prefix) > 1:
            raise DataError(f"{field}: {prefix!r} is named twice; name it once with the sum of its weights")
    return Blend(prefixes, weights if len(prefixes) > 1 else None)


def parse_split(text: str) -> tuple[float, float, float]:
    """The shares of train, validation and test, summing to 1.

    Raises:
        DataError: a share is not a number from 0 up; it is named.
    """
    words = [word.strip() for word in text.split(",")]
    if len(words) > len(SPLITS):
        raise DataError(f"dataset.split={text!r} has {len(words)} shares; it takes train,validation,test")
    shares = []
    for word in words:
        value = float(word) if _NUMBER.fullmatch(word) else math.nan
        if not (math.isfinite(value) and value >= 0) or word.startswith("-"):
            raise DataError(f"dataset.split={text!r}: {word!r} is not a share; a share is a number from 0 up")
        shares.append(value)
    shares += [0.0] * (len(SPLITS) - len(shares))
    if sum(shares) <= 0 or not math.isfinite(sum(shares)):
        raise DataError(f"dataset.split={text!r}: the shares must have a positive, finite sum")
    train, valid, test = (share / sum(shares) for share in shares)
    return train, valid, test


def split_bounds(text: str) -> dict[SplitName, tuple[float, float]]:
    """Split name -> the part [begin, end) of the data, for splits whose share is above 0."""
    # The additions are Megatron Core's, in its order, so that the rounded rows are the same.
    bounds: dict[SplitName, tuple[float, float]] = {}
    begin = 0.0
    for name, share in zip(SPLITS, parse_split(text), strict=True):
        if begin + share > begin:
            bounds[name] = (begin, begin + share)
        begin += share
    return bounds


def split_sources(dataset: DatasetConfig) -> dict[SplitName, SplitSource]:
    """Split name -> its source, for a `megatron-indexed` dataset; a split without data has no entry.

    Raises:
        DataError: no prefix, both ways of naming prefixes at once, or a bad blend or split.
    """
    fields: dict[SplitName, str] = {name: f"dataset.{name}_data_path" for name in SPLITS}
    per_split = {
        "train": dataset.train_data_path,
        "valid": dataset.valid_data_path,
        "test": dataset.test_data_path,
    }
    named = [name for name in SPLITS if per_split[name] is not None]
    if dataset.data_path is not None:
        if named:
            raise DataError(f"dataset.data_path and {fields[named[0]]} are both set: name the data in one way")
        if dataset.split is None:
            raise DataError("dataset.split is not set: dataset.data_path needs shares such as 99,1,0")
        blend = parse_blend(dataset.data_path, "dataset.data_path")
        bounds = split_bounds(dataset.split)
        return {name: SplitSource(blend, *bounds[name], "dataset.data_path") for name in bounds}
    if not named:
        raise DataError("dataset.data_path is not set: megatron-indexed reads the prefix or prefixes named there")
    if "train" not in named:
        raise DataError(f"dataset.train_data_path is not set, but {fields[named[0]]} is")
    blends = {name: parse_blend(per_split[name] or (), fields[name]) for name in named}
    return {name: SplitSource(blend, 0.0, 1.0, fields[name]) for name, blend in blends.items()}


def _weight(word: str | float | int, field: str) -> float:
    weight = float(word)
    if not (math.isfinite(weight) and weight > 0):
        raise DataError(f"{field}: weight {str(word)!r} is not a number above 0")
    return weight
