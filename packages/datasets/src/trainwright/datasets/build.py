"""From `dataset.*` to the datasets of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.datasets.blend import SplitName
from trainwright.datasets.ranks import at_once, in_turns
from trainwright.datasets.sft.adapters import ADAPTERS
from trainwright.datasets.tokenizers import Tokenizer

if TYPE_CHECKING:
    from torch.utils.data import Dataset

    from trainwright.recipes.config import ConfigContainer


def build_datasets(
    config: ConfigContainer, tokenizer: Tokenizer, *, train_samples: int, valid_samples: int
) -> tuple[Dataset[Any], Dataset[Any] | None]:
    """The training set, and the validation set where `valid_samples` is above 0.

    Call on every rank, with the device chosen and torch.distributed up (or on no rank at all). A sample is
    `{tokens, labels, loss_mask, position_ids}`, each of shape [dataset.seq_length]; every rank gets the same ones.
    Data that is too short for the samples asked for is read again, in another order; `cyclic` gets one pass. Sets
    from files have `samples_per_epoch`: the samples of one pass, or None where weights leave a pass undefined.
    Rows give a `RunDataset`, whatever the number of samples asked for; `build_loader` knows its order.

    Raises:
        DataError: files or words that cannot be used; on all ranks as soon as on one.
    """
    if config.dataset.kind in ADAPTERS:
        return _rows(config, tokenizer, valid=valid_samples > 0 and config.dataset.do_validation)
    from trainwright.datasets import samples

    wanted: dict[SplitName, int] = {"train": train_samples}
    if valid_samples:
        wanted["valid"] = valid_samples
    build = samples.mock if config.dataset.kind == "mock" else samples.indexed
    built = in_turns(lambda: build(config, tokenizer, wanted))
    return built["train"], built.get("valid")


def _rows(config: ConfigContainer, tokenizer: Tokenizer, *, valid: bool) -> tuple[Any, Any]:
    from trainwright.datasets.sft.build import RunDataset, packed_datasets, sft_datasets

    names: list[SplitName] = ["train", "valid"] if valid else ["train"]

    def opened() -> tuple[dict[SplitName, RunDataset], str]:
        built = {name: sft_datasets(config, tokenizer, name) for name in names}
        return built, " ".join(dataset.fingerprint for dataset in built.values())

    built = in_turns(opened)
    if config.dataset.enable_offline_packing:
        built = at_once(
            lambda: {name: packed_datasets(part, config, tokenizer, progress=True) for name, part in built.items()}
        )
    return built["train"], built.get("valid")
