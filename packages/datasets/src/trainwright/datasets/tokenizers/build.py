"""From `tokenizer.*` to a tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.datasets.errors import DataError
from trainwright.datasets.tokenizers.base import Tokenizer
from trainwright.datasets.tokenizers.hub import from_hub, is_hub_id
from trainwright.datasets.tokenizers.huggingface import HuggingFaceTokenizer
from trainwright.datasets.tokenizers.plain import ByteLevelTokenizer, NullTokenizer
from trainwright.datasets.tokenizers.tiktoken_file import TikTokenizer

if TYPE_CHECKING:
    from trainwright.recipes.config.data import TokenizerConfig


def build_tokenizer(tokenizer: TokenizerConfig) -> Tokenizer:
    """The tokenizer that `tokenizer.*` describes, from local files; a Hugging Face one also by its hub id.

    Raises:
        DataError: a file or size that the type needs is missing or cannot be used.
    """
    match tokenizer.tokenizer_type:
        case "ByteLevelTokenizer":
            return ByteLevelTokenizer()
        case "NullTokenizer":
            if tokenizer.vocab_size is None:
                raise DataError("tokenizer.vocab_size is not set: NullTokenizer has no vocabulary of its own")
            return NullTokenizer(tokenizer.vocab_size)
        case "HuggingFaceTokenizer":
            return HuggingFaceTokenizer(_huggingface_path(tokenizer))
        case "TikTokenizer":
            path = _model_path(tokenizer, "a tiktoken vocabulary file")
            if path.is_dir():
                raise DataError(f"tokenizer.tokenizer_model: {path} is a folder, TikTokenizer needs a vocabulary file")
            return TikTokenizer(path)


def _huggingface_path(tokenizer: TokenizerConfig) -> Path:
    """A local path comes first: a folder may be called like a repository of the hub."""
    name = tokenizer.tokenizer_model
    if name is not None and is_hub_id(name) and not Path(name).exists():
        return from_hub(name)
    return _model_path(tokenizer, "a local tokenizer folder, a tokenizer.json or a hub id")


def _model_path(tokenizer: TokenizerConfig, wanted: str) -> Path:
    if tokenizer.tokenizer_model is None:
        raise DataError(f"tokenizer.tokenizer_model is not set: {tokenizer.tokenizer_type} needs {wanted}")
    path = Path(tokenizer.tokenizer_model).expanduser()
    if not path.exists():
        raise DataError(f"tokenizer.tokenizer_model: {path} does not exist; {tokenizer.tokenizer_type} needs {wanted}")
    return path
