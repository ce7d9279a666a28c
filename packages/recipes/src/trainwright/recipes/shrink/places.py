"""What a rehearsal reads and writes: nothing of the run's own but its data."""

from trainwright.recipes.draft import show
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.fields import leaves
from trainwright.recipes.presets import HUB_KINDS, preset_dataset
from trainwright.recipes.shrink.smaller import REHEARSAL, Smaller
from trainwright.recipes.shrink.topology import rows_folder

WEIGHTS = ("checkpoint.load", "checkpoint.pretrained_checkpoint", "peft.initial_adapter")
"""Fields that name what a model starts from."""
WRITTEN = {
    "logger.run_dir": None,
    "logger.tensorboard_dir": None,
    "logger.save_config_filepath": None,
    "logger.wandb_project": None,
    "checkpoint.save": None,
    "dataset.path_to_cache": "cache",
}
"""Where a run writes -> the place in the rehearsal's folder; null follows from that folder, or writes nothing."""
KEPT_OF_DATA = ("enable_offline_packing", "enable_in_batch_packing", "dataloader_type", "do_validation", "num_workers")
"""Fields of `dataset` that generated rows take over."""


def weights(smaller: Smaller) -> None:
    """The model starts afresh. Raises ConfigError for weights that the user wants it to start from."""
    for path in WEIGHTS:
        value = smaller[path]
        if value is not None and smaller.draft.typed(path):
            raise ConfigError(
                f"{path}={value}: weights of the whole model do not fit a shrunk one; leave it out of --rehearse"
            )
        if value is not None:
            smaller.put(path, None)
            smaller.unchecked.append(f"starting from {path}={value}")
    smaller.put("checkpoint.ckpt_step", None)


def writing(smaller: Smaller) -> None:
    """Everything is written into the rehearsal's folder, so that no file of the run's own is touched."""
    typed = []
    for path, place in WRITTEN.items():
        if smaller.draft.typed(path) and smaller[path] is not None:
            typed.append(f"{path}={smaller[path]}")
        smaller.put(path, place and f"{smaller.folder}/{place}")
    if typed:
        smaller.unchecked.append(f"writing to {', '.join(typed)}")


def data(smaller: Smaller) -> None:
    """Generated rows in the place of a dataset that has to be downloaded, and a tokenizer that needs no file."""
    kind, typed = smaller["dataset.kind"], smaller.draft.typed
    if kind in HUB_KINDS and not typed("dataset.hf_dataset.path"):
        _generate_rows(smaller)
    if smaller["dataset.kind"] == "mock" and not any(
        typed(f"tokenizer.{name}") for name in ("tokenizer_type", "tokenizer_model")
    ):
        _count_tokens(smaller)


def _generate_rows(smaller: Smaller) -> None:
    full = smaller.full.config.dataset
    smaller.unchecked.append(f"the dataset {full.kind}, its columns and template (rows are generated)")
    kept = {name: getattr(full, name) for name in KEPT_OF_DATA}
    rows = preset_dataset(
        "local-jsonl", full.seq_length, **kept,
        dataset_root=rows_folder(smaller), random_seed=full.random_seed,
        offline_packing_specs=full.offline_packing_specs.model_dump(),
    )  # fmt: skip
    smaller.draft.empty("dataset")
    for path, value in leaves({"dataset": rows.model_dump()}):
        smaller.draft.put(path, value, REHEARSAL)
    _replace_tokenizer(smaller, "ByteLevelTokenizer", None)
    smaller.put("model.vocab_size", None)


def _count_tokens(smaller: Smaller) -> None:
    if smaller["tokenizer.tokenizer_type"] != "NullTokenizer":
        _replace_tokenizer(smaller, "NullTokenizer", smaller["model.vocab_size"] or 2**15)


def _replace_tokenizer(smaller: Smaller, kind: str, size: int | None) -> None:
    before = smaller.full.config.tokenizer
    if before.tokenizer_type == kind:
        return
    smaller.unchecked.append(f"the tokenizer {before.tokenizer_type} {show(before.tokenizer_model)}")
    smaller.put("tokenizer.tokenizer_type", kind)
    smaller.put("tokenizer.tokenizer_model", None)
    smaller.put("tokenizer.vocab_size", size)
