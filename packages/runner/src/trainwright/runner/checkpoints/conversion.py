"""From one kind of checkpoint to the other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.runner.checkpoints.folder import CheckpointFolder
from trainwright.runner.errors import RunRefused
from trainwright.runner.failures import failing_as

if TYPE_CHECKING:
    import torch

    from trainwright.recipes.config.model import ModelConfig
    from trainwright.runner.checkpoints.weights import Weights

Progress = Callable[[int], None]
TRAVELLING = "huggingface"
"""Folder, inside a native checkpoint that was imported, with what came along and is no weight."""
NO_TRAVELLER = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".index.json")
"""How names of files with weights end."""
LARGEST_TRAVELLER = 64 * 1024**2
"""Bytes; tokenizers are smaller."""


def open_weights(path: Path, step: int | None = None) -> Weights:
    """The weights at `path`: a Hugging Face directory, a native checkpoint, a folder of them, or a run directory.

    Raises:
        RunRefused: it is none of these, or damaged.
    """
    from trainwright.runner.huggingface.folder import CONFIG, is_huggingface

    if is_huggingface(path):
        from trainwright.runner.huggingface.weights import HuggingFaceWeights

        return HuggingFaceWeights(path)
    place = native_place(path, step)
    if place is None:
        raise RunRefused(
            f"{path} is no checkpoint: it has neither {CONFIG} and safetensors nor a native one's .metadata"
        )
    from trainwright.runner.checkpoints.native import ADAPTER, NativeWeights

    weights = NativeWeights(place)
    if any(ADAPTER in name for name in weights.held):
        raise RunRefused(f"{place} holds an adapter; trainwright-checkpoint merge-lora makes a model with it")
    return weights


def native_place(path: Path, step: int | None) -> Path | None:
    """The native checkpoint that `path` means; null where there is none.

    Raises:
        RunRefused: the step that is asked for is not there.
    """
    if (path / ".metadata").is_file():
        return path
    for folder in (CheckpointFolder(path), CheckpointFolder(path / "checkpoints")):
        found = folder.find(step) if folder.steps() else None
        if found is not None:
            return folder.complete(found)
    if path.name.startswith(".partial_") and path.is_dir():
        raise RunRefused(f"{path} is not complete: it is being written, or was left by a crash")
    return None


def import_huggingface(source: Path, target: Path, progress: Progress) -> Weights:
    """Write the model of the Hugging Face directory `source` as a native checkpoint `target`; returns what was read.

    Raises:
        RunRefused: `source` is not usable, or `target` exists.
        RunFailed: it cannot be written; nothing is left of it.
    """
    from trainwright.runner.checkpoints.write_weights import write_weights
    from trainwright.runner.huggingface.folder import is_huggingface

    if not is_huggingface(source):
        raise RunRefused(f"{source} is no Hugging Face directory: it has no config.json")
    weights = open_weights(source)
    if weights.model is None:
        raise ValueError("a Hugging Face directory always says what its model is")
    common = {"trainwright": {"imported_from": weights.kind, "model": weights.model.model_dump()}}
    with appearing(target) as place:
        write_weights(weights, place, common, progress)
        take_along(source, place)
    return weights


def export_huggingface(
    source: Path,
    target: Path,
    progress: Progress,
    *,
    step: int | None = None,
    like: Path | None = None,
    dtype: torch.dtype | None = None,
    largest: int | None = None,
) -> dict[str, Any]:
    """Write the model of the native checkpoint `source` as a Hugging Face directory `target`; returns its config.json.

    Tokenizer and generation settings come from `like`, else from where the weights once came from.

    Raises:
        RunRefused: `source` is not usable, no family has such a model, or `target` exists.
        RunFailed: it cannot be written; nothing is left of it.
    """
    weights = open_weights(source, step)
    with appearing(target) as place:
        return export_model(weights, place, progress, like=like, dtype=dtype, largest=largest)


def export_model(
    weights: Weights,
    place: Path,
    progress: Progress,
    *,
    like: Path | None = None,
    dtype: torch.dtype | None = None,
    largest: int | None = None,
) -> dict[str, Any]:
    """Write a model into the folder `place` as `export_huggingface` does; returns its config.json.

    Raises:
        RunRefused: the checkpoint does not say what its model is, or no family has such a model.
    """
    from trainwright.runner.huggingface.export import export_weights
    from trainwright.runner.huggingface.families import family_of_model
    from trainwright.runner.huggingface.folder import LARGEST_SHARD

    model = require_model(weights)
    family = family_of_model(model)
    companions = like or companions_of(weights)
    written = config_json(weights, family.hf_config(model), companions, dtype)
    export_weights(
        weights,
        family.rules(model),
        place,
        copies=family.copies(model),
        dtype=dtype,
        progress=progress,
        largest=largest or LARGEST_SHARD,
    )
    if companions is not None:
        travel(companions, place)
    (place / "config.json").write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
    return written


def require_model(weights: Weights) -> ModelConfig:
    """The model that a checkpoint says it holds, with its vocabulary.

    Raises:
        RunRefused: it does not say.
    """
    if weights.model is None:
        raise RunRefused(f"{weights.path} does not say what its model is: another program wrote it")
    if weights.model.vocab_size is None:
        raise RunRefused(f"{weights.path} does not say how many tokens its model knows")
    return weights.model


def companions_of(weights: Weights) -> Path | None:
    """Where the files lie that belong to a model and are no weights: beside it, where it came from, its tokenizer."""
    beside = weights.path / TRAVELLING
    if beside.is_dir():
        return beside
    run = getattr(weights, "run", None)
    if run is None:
        return None
    named = (run.checkpoint.pretrained_checkpoint, run.tokenizer.tokenizer_model)
    for path in (Path(name) for name in named if name is not None):
        for folder in (path / TRAVELLING, path):
            if any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json", "config.json")):
                return folder
    return None


def config_json(
    weights: Weights, fresh: dict[str, Any], companions: Path | None, dtype: torch.dtype | None
) -> dict[str, Any]:
    """`fresh` with the type of the weights, and with what the original says beyond it: tokens' ids and the like."""
    from trainwright.runner.huggingface.fields import WITHOUT_EFFECT
    from trainwright.runner.huggingface.folder import read_json

    types = {str(dtype or weight.dtype).removeprefix("torch.") for weight in weights.held.values()}
    kept: dict[str, Any] = {}
    if companions is not None and (companions / "config.json").is_file():
        original = read_json(companions / "config.json")
        kept = {name: value for name, value in original.items() if name in WITHOUT_EFFECT}
    for name in ("quantization_config", "dtype"):
        kept.pop(name, None)
    named = "bfloat16" if "bfloat16" in types else min(types)
    return {**kept, **fresh, "torch_dtype": named}


def travel(source: Path, target: Path) -> None:
    """Copy what belongs to a model and is no weight and no `config.json`: tokenizer, chat template, generation."""
    target.mkdir(exist_ok=True)
    for file in sorted(source.iterdir()):
        small = file.is_file() and file.stat().st_size <= LARGEST_TRAVELLER
        if (
            small
            and not file.name.endswith(NO_TRAVELLER)
            and not file.name.startswith(".")
            and file.name != "config.json"
        ):
            shutil.copyfile(file, target / file.name)


def take_along(companions: Path, place: Path) -> None:
    """Keep them in a native checkpoint at `place`, with the original `config.json`, for when it is exported."""
    travel(companions, place / TRAVELLING)
    if (companions / "config.json").is_file():
        shutil.copyfile(companions / "config.json", place / TRAVELLING / "config.json")


@contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """A folder that has its name only when all of it is there.

    Raises:
        RunRefused: there is something of that name already.
        RunFailed: it cannot be written.
    """
    if target.exists() or target.is_symlink():
        raise RunRefused(f"{target} exists; nothing is overwritten")
    partial = target.parent / f".partial_{target.name}"
    made_here = [parent for parent in target.parents if not parent.exists()]
    with failing_as(f"{target} cannot be written"):
        shutil.rmtree(partial, ignore_errors=True)
        try:
            partial.mkdir(parents=True)
            yield partial
            partial.rename(target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            for parent in made_here:
                if parent.is_dir() and not any(parent.iterdir()):
                    parent.rmdir()
            raise
