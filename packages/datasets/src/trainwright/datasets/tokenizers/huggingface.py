"""A Hugging Face tokenizer from a local folder or a `tokenizer.json`; the network is not asked here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainwright.datasets.errors import DataError
from trainwright.datasets.tokenizers.base import NO_TOKEN, Tokenizer, content_hash

VOCABULARY_FILES = ("*.model", "vocab*", "merges.txt", "added_tokens.json")
"""Where a folder without `tokenizer.json` keeps its vocabulary."""

PROBE = "Two  spaces, a tab\t, a line\nand A 1234 naïve café, 漢字 🙂.\n"

END_TOKENS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|end▁of▁sentence|>")
"""What ends a document in a bare `tokenizer.json`, which does not say it: the first of these that it holds."""


class HuggingFaceTokenizer(Tokenizer):
    """Wraps a `transformers` tokenizer; its end-of-sequence token ends a document."""

    def __init__(self, path: Path) -> None:
        self._tokenizer = _load(path)
        # A corpus is longer than any context: without this, each long document would print a warning.
        self._tokenizer.model_max_length = 10**30
        self._rust = _rust_tokenizer(self._tokenizer)
        self.vocab_size = max(len(self._tokenizer), 1 + max(self._tokenizer.get_vocab().values(), default=-1))
        self.eod = _end_of_document(self._tokenizer, path)
        self.pad = _padding(self._tokenizer)
        self.bos = self._tokenizer.bos_token_id
        self.unique_identifiers = {"class": "HuggingFaceTokenizer", "sha256": self._fingerprint(path), "eod": self.eod}

    @property
    def wrapped(self) -> Any:
        """The tokenizer of transformers, whose chat template and special tokens fine-tuning reads."""
        return self._tokenizer

    def tokenize(self, text: str) -> list[int]:
        if self._rust is not None:
            fast: list[int] = self._rust.encode_batch_fast([text], add_special_tokens=False)[0].ids
            return fast
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        return ids

    def detokenize(self, ids: Sequence[int]) -> str:
        kept = [int(i) for i in ids if i != self.eod and i != self.pad]
        text: str = self._tokenizer.decode(kept, clean_up_tokenization_spaces=False)
        return text

    def _fingerprint(self, path: Path) -> str:
        """Of the vocabulary's files, and of the ids of a text that its settings act on.

        Of settings themselves it would also change with a chat template, which changes no id.
        """
        files = [path] if path.is_file() else [path / "tokenizer.json"]
        if not files[0].is_file():
            files = [file for glob in VOCABULARY_FILES for file in path.glob(glob) if file.is_file()]
        return hashlib.sha256(f"{content_hash(files)} {self.tokenize(PROBE)}".encode()).hexdigest()


def _load(path: Path) -> Any:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    try:
        if path.is_dir():
            return AutoTokenizer.from_pretrained(str(path), local_files_only=True)
        json.loads(path.read_bytes())  # the loader behind names no file and no line
        return PreTrainedTokenizerFast(tokenizer_file=str(path))
    except Exception as error:  # transformers raises whatever it met first, of any type
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(f"tokenizer.tokenizer_model: {path} is no Hugging Face tokenizer: {reason}") from error


def _rust_tokenizer(tokenizer: Any) -> Any:
    """What most tokenizers wrap, or None. Asked directly it counts no characters: 1.4 times as fast."""
    rust = getattr(tokenizer, "backend_tokenizer", None)
    if rust is not None:
        rust.encode_special_tokens = True  # written out in a text they are text
        rust.no_truncation()
        rust.no_padding()
    return rust


def _end_of_document(tokenizer: Any, path: Path) -> int:
    if tokenizer.eos_token_id is not None:
        return int(tokenizer.eos_token_id)
    vocabulary = tokenizer.get_vocab()
    for token in END_TOKENS:
        if token in vocabulary:
            return int(vocabulary[token])
    raise DataError(
        f"tokenizer.tokenizer_model: {path} names no end-of-sequence token; "
        "set eos_token in its tokenizer_config.json (and give the folder, not the file)"
    )


def _padding(tokenizer: Any) -> int:
    """The padding token, unless it is also a token with a meaning of its own."""
    pad = tokenizer.pad_token_id
    others = (None, tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.unk_token_id)
    return NO_TOKEN if pad in others else int(pad)
