"""`dataset` and `tokenizer`: what the model reads."""

from typing import Literal

from pydantic import Field

from trainwright.recipes.config.section import Section

Blend = str | list[str | float | int]
"""One prefix, a list of prefixes, or weights and prefixes in turn: `[0.3, a, 0.7, b]`, or as one text `0.3 a 0.7 b`."""


class DatasetConfig(Section):
    """`dataset`: which sequences, in which order."""

    kind: Literal["mock", "megatron-indexed"] = "mock"
    """What `--dataset` selected."""
    seq_length: int = Field(ge=1)
    """Tokens of one sequence; `model.seq_length` follows."""
    random_seed: int = Field(default=1234, ge=0)
    """Seed of shuffling and of mock data."""
    split: str | None = "9999,8,2"
    """Shares of documents for train, validation, test. Unused with per-split prefixes."""
    data_path: Blend | None = None
    """Prefixes of `.bin`/`.idx` pairs for all splits."""
    train_data_path: Blend | None = None
    valid_data_path: Blend | None = None
    test_data_path: Blend | None = None
    path_to_cache: str | None = None
    """Folder of the index cache; null means beside the data."""
    mmap_bin_files: bool = True
    reset_position_ids: bool = False
    """Start positions anew after each end of document."""
    eod_mask_loss: bool = False
    """Leave end-of-document tokens out of the loss."""
    dataloader_type: Literal["single", "cyclic"] = "single"
    """`single` walks the sample index once in order; `cyclic` shuffles it anew each epoch."""
    num_workers: int = Field(default=2, ge=0)
    """Loader processes on each rank."""


class TokenizerConfig(Section):
    """`tokenizer`: text to token ids."""

    tokenizer_type: Literal["NullTokenizer", "ByteLevelTokenizer", "HuggingFaceTokenizer", "TikTokenizer"] = (
        "NullTokenizer"
    )
    tokenizer_model: str | None = None
    """Folder or file of a Hugging Face tokenizer, or the tiktoken vocabulary file."""
    vocab_size: int | None = Field(default=None, ge=1)
    """Size for `NullTokenizer`, which only counts."""
