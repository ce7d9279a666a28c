"""`dataset` and `tokenizer`: what the model reads."""

from typing import Any, Literal

from pydantic import Field

from trainwright.recipes.config.section import Section

Blend = str | list[str | float | int]
"""One path, a list of paths, or weights and paths in turn: `[0.3, a, 0.7, b]`, or as one text `0.3 a 0.7 b`."""

DatasetKind = Literal[
    "mock",
    "megatron-indexed",
    "local-jsonl",
    "squad",
    "tulu3",
    "coderforge",
    "openmathinstruct2",
    "openmathinstruct2-thinking",
    "gsm8k",
]
"""The names of `--dataset` that this version serves; what each stands for is in `trainwright.recipes.presets`."""


class HfDatasetConfig(Section):
    """`dataset.hf_dataset`: a dataset of rows, on the hub or as local files of the same shape."""

    path: str
    """Hub id, folder of a local clone of the dataset's repository, or a .jsonl, .json or .parquet file (.gz, .zst)."""
    name: str | None = None
    """The hub's configuration of the dataset, such as `trajectories` or `main`."""
    split: str = "train"
    """What is trained on, such as `train` or `SWE_Rebench[:64]`."""
    revision: str | None = None
    """Commit or branch of the hub's repository; null means the newest."""
    validation_split: str | None = None
    """A published split, where there is one."""
    validation_proportion: float | None = Field(default=None, gt=0, lt=1)
    """Share of the rows of `split` that are held out, chosen by `dataset.random_seed`; they are never trained on."""
    test_split: str | None = None


class PreprocessingConfig(Section):
    """`dataset.preprocessing`: from a row to token ids and to which of them are learnt."""

    style: Literal["prompt-completion", "chat"] = "prompt-completion"
    prompt_column: str = "input"
    """Prompt-completion only."""
    completion_column: str = "output"
    """Prompt-completion only."""
    separator: str = " "
    """Between prompt and completion; learnt with the completion. Prompt-completion only."""
    truncation_side: Literal["right", "left"] = "right"
    """The end at which a sequence that is too long is cut. `left`: prompt first, the completion only after it."""
    add_bos: bool = False
    """Prompt-completion only: a chat template writes its own marks."""
    add_eos: bool = True
    """Prompt-completion only: a chat template writes its own marks."""
    loss: Literal["completion", "assistant", "all"] = "completion"
    """What is learnt. Prompt-completion: `completion` or `all`; chat: `assistant` (its own default) or `all`."""
    messages_column: str = "messages"
    """Chat only."""
    tools_column: str = "tools"
    """Chat only; a row may lack it."""
    chat_template: str | None = None
    """File of a Jinja template; null means the tokenizer's own. Chat only."""
    broken_rows: Literal["refuse", "skip"] = "refuse"
    """A line that is no JSON object, a row that lacks a column; skipped ones are counted and said."""
    unsupervised_rows: Literal["refuse", "skip"] = "refuse"
    """A row of which nothing is left to learn after truncation; skipped ones are counted and said."""


class OfflinePackingConfig(Section):
    """`dataset.offline_packing_specs`: how sequences are laid into rows of one size."""

    packed_sequence_size: int | None = Field(default=None, ge=1)
    """Tokens of a packed row; null means `dataset.seq_length`."""
    pad_seq_to_mult: int | None = Field(default=None, ge=1)
    """Each sequence is padded to a multiple of this; null means what the topology needs (`recipes.packing`)."""
    algorithm: Literal["first_fit_decreasing", "best_fit"] = "first_fit_decreasing"


class DatasetConfig(Section):
    """`dataset`: which sequences, in which order."""

    kind: DatasetKind = "mock"
    """What `--dataset` selected."""
    seq_length: int = Field(ge=1)
    """Tokens of one sequence; `model.seq_length` follows."""
    random_seed: int = Field(default=1234, ge=0)
    """Seed of shuffling, of held-out rows and of mock data."""
    split: str | None = "9999,8,2"
    """Shares of documents for train, validation, test. Unused with per-split prefixes."""
    data_path: Blend | None = None
    """Prefixes of `.bin`/`.idx` pairs for all splits."""
    train_data_path: Blend | None = None
    valid_data_path: Blend | None = None
    test_data_path: Blend | None = None
    path_to_cache: str | None = None
    """Folder of index caches, line indices and packed rows; null means beside the data."""
    mmap_bin_files: bool = True
    reset_position_ids: bool = False
    """Start positions anew after each end of document."""
    eod_mask_loss: bool = False
    """Leave end-of-document tokens out of the loss."""
    dataset_root: Blend | None = None
    """Folders of `training.jsonl`, `validation.jsonl` and `test.jsonl` (each also .gz, .zst)."""
    hf_dataset: HfDatasetConfig | None = None
    preprocessing: PreprocessingConfig = Field(default_factory=PreprocessingConfig)
    enable_offline_packing: bool = False
    """Lay sequences into rows of one size before training; needs a micro-batch of 1."""
    offline_packing_specs: OfflinePackingConfig = Field(default_factory=OfflinePackingConfig)
    enable_in_batch_packing: bool = False
    """Lay the sequences of each micro-batch into one row when it is collated; needs a micro-batch above 1."""
    do_validation: bool = True
    """Read validation rows; without them there is no validation whatever its interval."""
    do_test: bool = False
    """Test rows are read by `trainwright-data show` and `pack` only."""
    dataloader_type: Literal["single", "cyclic", "batch"] = "single"
    """`single` walks the sample index once in order; `cyclic` shuffles it anew each epoch. `batch`, for rows only,
    collates a rank's whole share of a global batch at once, so that all its micro-batches have one length. Rows have
    an order of their own in each epoch, whichever it is."""
    drop_last: bool = False
    """Leave out the ragged last global batch of an epoch; false: that batch goes on with the next epoch's rows."""
    num_workers: int = Field(default=2, ge=0)
    """Loader processes on each rank."""
    dataset_kwargs: dict[str, Any] = Field(default_factory=dict)
    """What only an implementation consumes; the keys of each kind stand in `presets.DATASET_KWARGS`."""


class TokenizerConfig(Section):
    """`tokenizer`: text to token ids."""

    tokenizer_type: Literal["NullTokenizer", "ByteLevelTokenizer", "HuggingFaceTokenizer", "TikTokenizer"] = (
        "NullTokenizer"
    )
    tokenizer_model: str | None = None
    """Folder or file of a Hugging Face tokenizer, or the tiktoken vocabulary file."""
    vocab_size: int | None = Field(default=None, ge=1)
    """Size for `NullTokenizer`, which only counts."""
