"""Which kinds of dataset read which fields of the `dataset` section."""

from trainwright.recipes.config.data import DatasetConfig
from trainwright.recipes.draft import Draft
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.fields import leaves
from trainwright.recipes.presets import HUB_KINDS, MODES, ROW_KINDS

_INDEXED_KINDS = tuple(kind for kind in MODES if kind not in ROW_KINDS)

READERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "split",
            "data_path",
            "train_data_path",
            "valid_data_path",
            "test_data_path",
            "mmap_bin_files",
            "reset_position_ids",
            "eod_mask_loss",
        ),
        _INDEXED_KINDS,
    ),
    "dataset_root": ("local-jsonl",),
    "hf_dataset": HUB_KINDS,
    **dict.fromkeys(
        (
            "preprocessing",
            "enable_offline_packing",
            "offline_packing_specs",
            "enable_in_batch_packing",
            "do_validation",
            "do_test",
            "drop_last",
        ),
        ROW_KINDS,
    ),
}
"""Field or section of `dataset` -> kinds that read it; any other field is read by all."""

_IDLE = dict(leaves({"dataset": DatasetConfig(seq_length=1).model_dump()})) | {"dataset.split": None}
"""What a field holds where nobody reads it: asking for that is no contradiction."""


def keep_kind(draft: Draft, selected: str, mode: str) -> None:
    """Raise ConfigError for a typed `dataset.kind` that the words before it have not prepared.

    `selected` is the kind of the recipe or of `--dataset`. Token streams differ in nothing but their source, so a word
    may go from one to the other; rows come with all that their name stands for.
    """
    kind = draft["dataset.kind"]
    if kind == selected:
        return
    if mode not in MODES[kind]:
        raise ConfigError(f"dataset.kind={kind} serves --mode {', '.join(MODES[kind])}, not {mode}")
    if {kind, selected} & set(ROW_KINDS):
        raise ConfigError(f"dataset.kind={kind}: type --dataset {kind}, which sets all that the name stands for")


def refuse_foreign_fields(draft: Draft) -> None:
    """Raise ConfigError for a typed field that the selected kind of dataset does not read."""
    kind = draft["dataset.kind"]
    for path, value in draft.values.items():
        name = path.removeprefix("dataset.").partition(".")[0]
        if not path.startswith("dataset.") or not draft.typed(path) or kind in READERS.get(name, (kind,)):
            continue
        if path not in _IDLE or value != _IDLE[path]:
            raise ConfigError(
                f"{path} has no effect on {kind} data; it belongs to --dataset {', '.join(READERS[name])}"
            )
