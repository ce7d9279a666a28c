"""`--dataset NAME`: what each name stands for, on top of a library recipe."""

from dataclasses import dataclass, field
from typing import Any, Literal

from trainwright.recipes.config.data import DatasetConfig
from trainwright.recipes.draft import PRESET, Draft
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.fields import leaves
from trainwright.recipes.nearest import did_you_mean
from trainwright.recipes.planned import DATASETS_TO_COME

PRETRAIN = ("pretrain",)
FINETUNE = ("sft", "lora", "dora")

PAD, TEMPLATE = "pad_to_max_length", "chat_template_kwargs"
KWARG_TYPES: dict[str, type] = {PAD: bool, TEMPLATE: dict}
"""Keys of `dataset.dataset_kwargs` and the type of their values.

`pad_to_max_length`: every unpacked sequence is padded to `dataset.seq_length`. `chat_template_kwargs`: variables handed
to the chat template, such as `{enable_thinking: false}`.
"""


@dataclass(frozen=True)
class Preset:
    """What one name sets, and what is known of its data."""

    kind: Literal["source selector", "named preset"]
    modes: tuple[str, ...]
    reads: str
    """One line: where the rows come from."""
    fields: dict[str, Any]
    """Fields of the `dataset` section; all others but the sequence length go back to their defaults."""
    dataset_kwargs: frozenset[str] = field(default=frozenset())
    """Keys of `dataset.dataset_kwargs` that the builder of this kind consumes."""
    licence: str | None = None
    """A note, not advice: the dataset's card decides."""

    @property
    def hub_id(self) -> str | None:
        """Where the rows are published."""
        published: str | None = self.fields.get("hf_dataset", {}).get("path")
        return published


_INDEXED: dict[str, Any] = {"split": "9999,8,2", "dataloader_type": "single", "num_workers": 2}
_ROWS: dict[str, Any] = {"split": None, "dataloader_type": "batch", "num_workers": 2, "random_seed": 5678}
_PROMPT = {"style": "prompt-completion", "loss": "completion"}
_CHAT = {"style": "chat", "loss": "assistant"}


def _named(
    hf_dataset: dict[str, Any], preprocessing: dict[str, Any], licence: str, reads: str, **others: Any
) -> Preset:
    """A published dataset of rows."""
    return Preset(
        kind="named preset",
        modes=FINETUNE,
        reads=reads,
        fields={**_ROWS, "hf_dataset": hf_dataset, "preprocessing": preprocessing, **others},
        dataset_kwargs=frozenset({PAD, TEMPLATE} if preprocessing is _CHAT else {PAD}),
        licence=licence,
    )


PRESETS: dict[str, Preset] = {
    "mock": Preset("source selector", PRETRAIN, "generated documents; no file is read", _INDEXED),
    "megatron-indexed": Preset(
        "source selector", PRETRAIN, "local .bin/.idx pairs, named by dataset.data_path", _INDEXED
    ),
    "local-jsonl": Preset(
        "source selector",
        FINETUNE,
        "training.jsonl, validation.jsonl and test.jsonl in the folder dataset.dataset_root",
        {**_ROWS, "preprocessing": _PROMPT, "do_test": True},
        frozenset({PAD, TEMPLATE}),
    ),
    "squad": _named(
        {"path": "rajpurkar/squad", "split": "train", "validation_proportion": 0.1},
        _PROMPT,
        "CC BY-SA 4.0",
        "question answering over Wikipedia paragraphs",
        num_workers=1,
    ),
    "tulu3": _named(
        {"path": "allenai/tulu-3-sft-mixture", "split": "train", "validation_proportion": 0.05},
        _CHAT,
        "ODC-BY 1.0; subsets carry terms of their own, some non-commercial",
        "the Tulu 3 SFT mixture",
    ),
    "coderforge": _named(
        {
            "path": "togethercomputer/CoderForge-Preview",
            "name": "trajectories",
            "split": "SWE_Rebench",
            # No public description names a share; this one is that of the other chat datasets.
            "validation_proportion": 0.05,
        },
        _CHAT,
        "the card states none; each row names that of its repository",
        "trajectories of coding agents, with tools",
    ),
    "openmathinstruct2": _named(
        {"path": "nvidia/OpenMathInstruct-2", "split": "train_1M", "validation_proportion": 0.05},
        _PROMPT,
        "CC BY 4.0",
        "mathematics problems with generated solutions",
    ),
    "openmathinstruct2-thinking": _named(
        {"path": "nvidia/OpenMathInstruct-2", "split": "train_1M", "validation_proportion": 0.05},
        _CHAT,
        "CC BY 4.0",
        "the same: the solution as thinking, the answer as the final channel",
    ),
    "gsm8k": _named(
        {"path": "openai/gsm8k", "name": "main", "split": "train", "test_split": "test"},
        _PROMPT,
        "MIT",
        "grade school mathematics",
        do_validation=False,
        do_test=True,
    ),
}
"""Name -> preset. Splits, columns and shares are Megatron Bridge's, but for CoderForge's share."""

MODES: dict[str, tuple[str, ...]] = {name: preset.modes for name, preset in PRESETS.items()}
"""Name -> modes it serves."""

DATASET_KWARGS: dict[str, frozenset[str]] = {name: preset.dataset_kwargs for name, preset in PRESETS.items()}
"""Kind -> keys of `dataset.dataset_kwargs` that its builder consumes; no other key is accepted."""

ROW_KINDS = tuple(name for name, preset in PRESETS.items() if preset.modes == FINETUNE)
"""Kinds that read rows of text, for supervised fine-tuning."""

HUB_KINDS = tuple(name for name, preset in PRESETS.items() if preset.hub_id)
"""Kinds that read `dataset.hf_dataset`."""


def preset_dataset(name: str, seq_length: int, **fields: Any) -> DatasetConfig:
    """The `dataset` section that `name` stands for, with `fields` on top."""
    return DatasetConfig.model_validate({"kind": name, "seq_length": seq_length, **PRESETS[name].fields, **fields})


def apply_preset(draft: Draft, name: str, mode: str) -> None:
    """Put the preset in the place of the recipe's dataset; only the sequence length stays.

    Raises ConfigError for an unknown name or a mode it does not serve.
    """
    if name in DATASETS_TO_COME:
        raise ConfigError(f"--dataset {name} is not available yet; available: {', '.join(PRESETS)}")
    if name not in PRESETS:
        raise ConfigError(
            f"--dataset {name}: no such dataset; available: {', '.join(PRESETS)}{did_you_mean(name, PRESETS)}"
        )
    if mode not in MODES[name]:
        raise ConfigError(f"--dataset {name} serves --mode {', '.join(MODES[name])}, not {mode}")
    length, source = draft["dataset.seq_length"], draft.sources["dataset.seq_length"]
    draft.empty("dataset")
    for path, value in leaves({"dataset": preset_dataset(name, length).model_dump()}):
        draft.put(path, value, source if path == "dataset.seq_length" else PRESET)
