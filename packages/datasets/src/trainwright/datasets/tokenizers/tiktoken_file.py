"""A byte-pair encoding from a tiktoken vocabulary file: one line for each token, `<base64 of its bytes> <rank>`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainwright.datasets.errors import DataError
from trainwright.datasets.tokenizers.base import Tokenizer, content_hash

# How text is cut before merging. The file does not say it; these are the published patterns of each family.
_GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
_CL100K = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"""
    r"""|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)
_LLAMA3 = (
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"""
    r"""|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_O200K = "|".join(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)


@dataclass(frozen=True)
class Family:
    """What a vocabulary file leaves out."""

    pattern: str
    vocab_size: int
    eod: int
    bos: int | None = None


FAMILIES = {
    50256: Family(_GPT2, 50257, 50256),  # r50k_base, GPT-2
    50280: Family(_GPT2, 50281, 50256),  # p50k_base: its ranks leave 50256 free
    100256: Family(_CL100K, 100277, 100257),  # cl100k_base
    128000: Family(_LLAMA3, 128256, 128001, 128000),  # Llama 3: 256 special tokens, <|end_of_text|> is the second
    199998: Family(_O200K, 200019, 199999),  # o200k_base
}
"""Ranks in a published file -> what it leaves out. Any other file: cl100k's pattern, `eod` after the last rank."""


class TikTokenizer(Tokenizer):
    """Byte-pair encoding by the `tiktoken` library over a local vocabulary file."""

    def __init__(self, path: Path) -> None:
        import tiktoken

        ranks = _read_ranks(path)
        size = 1 + max(ranks.values())
        family = FAMILIES.get(len(ranks)) or Family(_CL100K, size + 1, size)
        try:
            self._encoding = tiktoken.Encoding(
                path.name, pat_str=family.pattern, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": family.eod}
            )
        except ValueError as error:
            raise DataError(f"tokenizer.tokenizer_model: {path}: {error}") from error
        self.vocab_size, self.eod, self.bos = family.vocab_size, family.eod, family.bos
        self.unique_identifiers = {"class": "TikTokenizer", "sha256": content_hash([path]), "eod": self.eod}

    def tokenize(self, text: str) -> list[int]:
        return self._encoding.encode_ordinary(text)

    def detokenize(self, ids: Sequence[int]) -> str:
        return self._encoding.decode([int(i) for i in ids if i != self.eod and i != self.pad])


def _read_ranks(path: Path) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line:
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error):
            raise DataError(
                f"tokenizer.tokenizer_model: {path}:{number}: not `<base64> <rank>`: {line[:40]!r}"
            ) from None
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise DataError(f"tokenizer.tokenizer_model: {path}: byte {missing[0]} has no rank, so not every text has ids")
    return ranks
