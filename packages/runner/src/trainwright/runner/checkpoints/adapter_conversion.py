"""Adapters in and out, and merged into the weights that they were trained beside."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.runner.checkpoints.adapter import Adapter, AdapterWeights
from trainwright.runner.checkpoints.base import Base, require_base
from trainwright.runner.checkpoints.conversion import (
    appearing,
    companions_of,
    export_model,
    native_place,
    open_weights,
    require_model,
    take_along,
)
from trainwright.runner.checkpoints.fingerprint import fingerprint
from trainwright.runner.checkpoints.merging import MergedWeights
from trainwright.runner.errors import RunRefused

if TYPE_CHECKING:
    import torch

    from trainwright.recipes.adapters import Linear
    from trainwright.runner.checkpoints.native_adapter import NativeAdapter
    from trainwright.runner.checkpoints.weights import Weights
    from trainwright.runner.huggingface.peft_adapter import PeftAdapter

Progress = Callable[[int], None]
SCHEMES = {"lora": "LoRA", "dora": "DoRA"}


def holds_adapter(path: Path, step: int | None = None) -> bool:
    """Whether `path` is an adapter in PEFT's format, or a native checkpoint in which there are adapters.

    Raises:
        RunRefused: a native checkpoint is damaged.
    """
    from trainwright.runner.checkpoints.native import NativeWeights
    from trainwright.runner.huggingface.folder import is_huggingface
    from trainwright.runner.huggingface.peft_settings import is_peft

    if is_peft(path):
        return True
    place = None if is_huggingface(path) else native_place(path, step)
    return place is not None and bool(NativeWeights(place, only="adapters").held)


def open_native_adapter(path: Path, step: int | None = None) -> NativeAdapter:
    """The adapters of the native checkpoint that `path` means.

    Raises:
        RunRefused: it is none, or damaged, or holds no adapter.
    """
    from trainwright.runner.checkpoints.native_adapter import NativeAdapter

    place = native_place(path, step)
    if place is None:
        raise RunRefused(
            f"{path} is no adapter: it has neither adapter_config.json nor a native checkpoint's .metadata"
        )
    return NativeAdapter(place)


def open_adapter(
    path: Path,
    base: Weights,
    *,
    step: int | None = None,
    parts_of: Callable[[Linear], tuple[str, ...]] | None = None,
) -> Adapter:
    """The adapters at `path` for the model of `base`, whose architecture and vocabulary are compared with theirs.

    `parts_of` says which parts each layer is wanted in, where the format leaves a choice.

    Raises:
        RunRefused: there are none, or they are of another model.
    """
    from trainwright.runner.huggingface.family import differences
    from trainwright.runner.huggingface.peft_adapter import PeftAdapter
    from trainwright.runner.huggingface.peft_settings import is_peft

    model = require_model(base)
    if is_peft(path):
        return PeftAdapter(path, model, parts_of)
    adapter = open_native_adapter(path, step)
    if adapter.model.vocab_size != model.vocab_size:
        raise RunRefused(
            f"{adapter.path} was trained beside a model of {adapter.model.vocab_size} tokens, and {base.path} has "
            f"{model.vocab_size}"
        )
    wrong = differences(adapter.model, model)
    if wrong:
        lines = "; ".join(f"model.{one}" for one in wrong[:5])
        raise RunRefused(f"{adapter.path} belongs to another model than {base.path}: {lines}")
    return adapter


def import_peft(source: Path, target: Path, base: Path | None, progress: Progress) -> PeftAdapter:
    """Write the adapter in PEFT's format at `source` as a native checkpoint `target`, from which a run can start.

    `base` is where its weights are, by default what it says itself.

    Raises:
        RunRefused: it is no such adapter, not one for the weights at `base`, or `target` exists.
        RunFailed: it cannot be written; nothing is left of it.
    """
    from trainwright.runner.checkpoints.write_weights import write_weights
    from trainwright.runner.huggingface.peft_adapter import PeftAdapter

    weights, _ = base_weights(source, base, None)
    adapter = PeftAdapter(source, require_model(weights))
    found = fingerprint(weights, progress)
    if adapter.base is not None:
        require_base(adapter.base, weights, found, of=source)
    common = {
        "imported_from": adapter.kind,
        "model": adapter.model.model_dump(),
        "peft": adapter.peft.model_dump(),
        "base": Base.of(weights, found).common(),
    }
    with appearing(target) as place:
        write_weights(AdapterWeights(adapter), place, {"trainwright": common}, progress)
    return adapter


def export_adapter(
    source: Path, target: Path, progress: Progress, *, step: int | None = None, dtype: torch.dtype | None = None
) -> tuple[NativeAdapter, list[str]]:
    """Write the adapters of the native checkpoint `source` in PEFT's format; returns them and what to tell.

    Raises:
        RunRefused: `source` is not usable, PEFT has no such adapter, or `target` exists.
        RunFailed: it cannot be written; nothing is left of it.
    """
    from trainwright.runner.huggingface.folder import is_huggingface
    from trainwright.runner.huggingface.peft_export import export_peft

    adapter = open_native_adapter(source, step)
    beside = adapter.base.path if adapter.base is not None and is_huggingface(Path(adapter.base.path)) else None
    with appearing(target) as place:
        remarks = export_peft(adapter, place, base=beside, dtype=dtype, progress=progress)
    return adapter, remarks


def merge(
    source: Path,
    target: Path,
    progress: Progress,
    *,
    base: Path | None = None,
    step: int | None = None,
    dtype: torch.dtype | None = None,
) -> tuple[MergedWeights, list[str]]:
    """Write the weights at `base`, by default those that the adapter at `source` names, with the adapter merged.

    They become what they were: a Hugging Face directory, or a native checkpoint. Returns what was merged and what a
    person should know.

    Raises:
        RunRefused: the adapter is not one for these weights, changes nothing, or `target` exists.
        RunFailed: it cannot be written, or is lost in rounding; nothing is left of it.
    """
    weights, beside_it = base_weights(source, base, step)
    adapter = open_adapter(source, weights, step=step)
    remarks = [*weights.remarks, *adapter.remarks]
    if adapter.base is None and not beside_it:
        remarks.append(f"it does not say of which weights it is; names and sizes are those of {weights.path}")
    if adapter.base is not None:
        require_base(adapter.base, weights, fingerprint(weights, progress), of=source)
    merged = MergedWeights(weights, adapter, dtype)
    with appearing(target) as place:
        _write(merged, place, progress)
        remarks += merged.require_changes()
    return merged, remarks


def describe(adapter: Adapter) -> str:
    """One line: scheme, rank, scale, of how many layers, how many parameters, beside which weights."""
    weights = AdapterWeights(adapter).held.values()
    elements = sum(math.prod(weight.shape) for weight in weights)
    names = ", ".join(dict.fromkeys(part for parts in adapter.layers.values() for part in parts))
    beside = f", beside {adapter.base.path}" if adapter.base is not None else ""
    return (
        f"{SCHEMES[adapter.peft.scheme]} of rank {adapter.peft.dim}, scale {adapter.peft.alpha / adapter.peft.dim:g}, "
        f"of {len(adapter.layers)} layers ({names}): {elements:,} parameters, "
        f"{str(adapter.dtype).removeprefix('torch.')}{beside}"
    )


def _write(merged: MergedWeights, place: Path, progress: Progress) -> None:
    from trainwright.runner.checkpoints.write_weights import write_weights
    from trainwright.runner.huggingface.folder import is_huggingface

    if is_huggingface(merged.path):
        export_model(merged, place, progress, like=merged.path)
        return
    common = {"merged_from": merged.kind, "model": require_model(merged).model_dump()}
    write_weights(merged, place, {"trainwright": common}, progress)
    companions = companions_of(merged.base)
    if companions is not None:
        take_along(companions, place)


def base_weights(source: Path, base: Path | None, step: int | None) -> tuple[Weights, bool]:
    """The weights at `base`, else those that the adapter at `source` names or, where it names none, those beside it.

    Also whether it is the last.

    Raises:
        RunRefused: there are none.
    """
    from trainwright.runner.checkpoints.native import NativeWeights
    from trainwright.runner.huggingface.peft_settings import is_peft, read_settings

    if base is not None:
        return open_weights(base), False
    if is_peft(source):
        named = read_settings(source).base
    else:
        adapter = open_native_adapter(source, step)
        if adapter.whole_model:
            return NativeWeights(adapter.path, only="model"), True
        named = adapter.base.path if adapter.base is not None else None
    if named is None:
        raise RunRefused(f"{source} does not say which weights it was trained beside; --base names them")
    if not Path(named).is_dir():
        raise RunRefused(
            f"{source} was trained beside {named}, which is no directory here; --base names where it is now"
        )
    return open_weights(Path(named)), False
