"""`--dataset NAME`: what each name sets, on top of a library recipe."""

from typing import Any

from trainwright.recipes.draft import PRESET, Draft
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.nearest import did_you_mean
from trainwright.recipes.planned import DATASETS_TO_COME

_DATA_PATHS = ("data_path", "train_data_path", "valid_data_path", "test_data_path")

PRESETS: dict[str, dict[str, Any]] = {
    "mock": {"kind": "mock", "split": "9999,8,2", **dict.fromkeys(_DATA_PATHS), "dataloader_type": "single"},
    "megatron-indexed": {
        "kind": "megatron-indexed",
        "split": "9999,8,2",
        **dict.fromkeys(_DATA_PATHS),
        "dataloader_type": "single",
    },
}
"""Name -> fields of the `dataset` section."""

MODES: dict[str, tuple[str, ...]] = {"mock": ("pretrain",), "megatron-indexed": ("pretrain",)}
"""Name -> modes it serves."""


DATASET_KWARGS: dict[str, frozenset[str]] = {
    "mock": frozenset(),
    "megatron-indexed": frozenset(),
    **dict.fromkeys(("squad", "openmathinstruct2", "gsm8k"), frozenset({"pad_to_max_length"})),
    **dict.fromkeys(
        ("local-jsonl", "tulu3", "coderforge", "openmathinstruct2-thinking"),
        frozenset({"pad_to_max_length", "chat_template_kwargs"}),
    ),
}
"""Kind -> keys of `dataset.dataset_kwargs` that its builder consumes.

`pad_to_max_length` (true or false): every unpacked sequence is padded to `dataset.seq_length`. `chat_template_kwargs`
(a dictionary): variables handed to the chat template, such as `{enable_thinking: false}`; with style `chat` only.
"""


def apply_preset(draft: Draft, name: str, mode: str) -> None:
    """Lay the preset over the recipe's dataset. Raises ConfigError for an unknown name or a mode it does not serve."""
    if name in DATASETS_TO_COME:
        raise ConfigError(f"--dataset {name} is not available yet; available: {', '.join(PRESETS)}")
    if name not in PRESETS:
        raise ConfigError(
            f"--dataset {name}: no such dataset; available: {', '.join(PRESETS)}{did_you_mean(name, PRESETS)}"
        )
    if mode not in MODES[name]:
        raise ConfigError(f"--dataset {name} serves --mode {', '.join(MODES[name])}, not {mode}")
    for field, value in PRESETS[name].items():
        draft.put(f"dataset.{field}", value, PRESET)
