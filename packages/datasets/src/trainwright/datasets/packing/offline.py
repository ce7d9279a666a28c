"""Offline packing: a dataset into packed rows on disk, once for each file system."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.datasets.errors import DataError
from trainwright.datasets.packing.algorithms import pack
from trainwright.datasets.packing.artifact import FORMAT, ArtifactWriter, open_artifact
from trainwright.datasets.packing.dataset import PackedDataset
from trainwright.datasets.packing.once import built_once
from trainwright.datasets.packing.rows import padding_id
from trainwright.datasets.packing.tokenizing import Sequences, encode_all

if TYPE_CHECKING:
    from trainwright.datasets.tokenizers import Tokenizer
    from trainwright.recipes.config import ConfigContainer


def packed(
    dataset: Sequences,
    config: ConfigContainer,
    tokenizer: Tokenizer,
    split: str,
    *,
    folder: Path,
    workers: int | None = None,
    progress: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> PackedDataset:
    """The packed rows of a dataset, from `folder` where they are, else built there.

    Call on every rank at once, or on one process ahead of time: the first to come builds, with `workers` processes (by
    default one for each CPU that it may use), and the others wait. An artifact is found by what went into it: the
    dataset's fingerprint and how it is packed.

    Raises:
        DataError: a sample that cannot be used, nothing to pack, or a folder that cannot be written; in the builder and
            in all that wait for it.
    """
    specs = config.dataset.offline_packing_specs
    size, alignment = specs.packed_sequence_size, specs.pad_seq_to_mult
    if size is None or alignment is None:
        raise ValueError("dataset.offline_packing_specs is not resolved")
    key: dict[str, object] = {
        "format": FORMAT,
        "dataset": dataset.fingerprint,
        "vocab_size": tokenizer.vocab_size,
        "algorithm": specs.algorithm,
        "packed_sequence_size": size,
        "pad_seq_to_mult": alignment,
    }
    fingerprint = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    entry = folder / f"packed-{split}-{fingerprint[:32]}"
    workers = workers or len(os.sched_getaffinity(0))

    def build(scratch: Path) -> None:
        say(f"packing {len(dataset):,} samples into {entry}")
        with ArtifactWriter(scratch, tokenizer.vocab_size) as writer:
            for encoded in encode_all(dataset, workers=workers, progress=progress):
                writer.add(encoded)
            if not writer.sequences:
                raise DataError(f"dataset.enable_offline_packing: none of {len(dataset):,} samples can be used")
            lengths = writer.lengths()
            packing = pack(-(-(lengths - 1) // alignment) * alignment, size, specs.algorithm)
            writer.finish(packing, {"fingerprint": fingerprint, "samples": len(dataset), "key": key})

    built_once(
        entry,
        build,
        lambda folder: open_artifact(folder) is not None,
        on_wait=lambda: say(f"waiting for another process to pack {entry}"),
    )
    artifact = open_artifact(entry)
    if artifact is None:
        raise DataError(f"{entry} was removed while it was opened")
    return PackedDataset(dataset, artifact, entry, size=size, alignment=alignment, pad=padding_id(tokenizer))
