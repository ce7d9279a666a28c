"""What a run reads: corpora, tokenizers and loaders.

Importing this is cheap: torch, megatron-core and transformers are imported by the functions that use them.
"""

from trainwright.datasets.build import build_datasets
from trainwright.datasets.check import check_data
from trainwright.datasets.errors import DataError
from trainwright.datasets.loader import build_loader
from trainwright.datasets.tokenizers import Tokenizer, build_tokenizer

__all__ = ["DataError", "Tokenizer", "build_datasets", "build_loader", "build_tokenizer", "check_data"]
