"""Text to token ids and back: one class for each `tokenizer.tokenizer_type`."""

from trainwright.datasets.tokenizers.base import Tokenizer
from trainwright.datasets.tokenizers.build import build_tokenizer

__all__ = ["Tokenizer", "build_tokenizer"]
