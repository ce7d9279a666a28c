"""`PREFIX.prepare.json`: what made a pair, kept beside it by `prepare`. A pair from elsewhere has none."""

from __future__ import annotations

import json
from typing import Any

from trainwright.datasets.errors import DataError
from trainwright.datasets.indexed import IndexedPair
from trainwright.datasets.tokenizers import Tokenizer

SUFFIX = ".prepare.json"


def read_provenance(pair: IndexedPair) -> dict[str, Any] | None:
    """What made the pair; None where nothing says it, or where it speaks of another index than the one there."""
    try:
        with open(f"{pair.prefix}{SUFFIX}", encoding="utf-8") as stream:
            described = json.load(stream)
    except (OSError, ValueError):
        return None
    if not isinstance(described, dict) or not isinstance(described.get("tokenizer"), dict):
        return None
    return described if described.get("idx_sha256") == pair.sha256 else None


def check_tokenizer(pair: IndexedPair, tokenizer: Tokenizer) -> None:
    """Refuse a pair that another tokenizer made: its ids would be read as other text.

    NullTokenizer reads no text and takes any pair.

    Raises:
        DataError: naming both tokenizers.
    """
    described = read_provenance(pair)
    ours = tokenizer.unique_identifiers
    if described is None or ours["class"] == "NullTokenizer":
        return
    theirs = described["tokenizer"]
    if theirs != ours:
        raise DataError(
            f"{pair.prefix} was prepared with {_words(theirs)}, this run reads it with {_words(ours)} "
            f"(if both give the same ids, remove {pair.prefix}{SUFFIX})"
        )


def _words(identifiers: dict[str, object]) -> str:
    digest = str(identifiers.get("sha256", ""))
    return f"{identifiers.get('class')}" + (f" of content {digest[:12]}" if digest else "")
