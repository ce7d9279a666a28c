"""`trainwright-checkpoint import`, `export`, `merge-lora` and `verify`: models and adapters in and out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from trainwright.recipes.words import UsageError
from trainwright_trainer.sizes import binary

Progress = Callable[[int], None]


class Type(StrEnum):
    """Types of weights that can be asked for."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"


Dtype = Annotated[Type | None, typer.Option(help="Type of the weights; by default the one they have.")]
Step = Annotated[int | None, typer.Option(metavar="N", help="This step of a run and not the latest.")]
BASE = "The weights that the adapter was trained beside; by default those that it names."


def import_model(
    source: Annotated[
        Path, typer.Argument(metavar="DIR", help="A Hugging Face directory with safetensors, or an adapter of PEFT's.")
    ],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The native checkpoint to write; must not exist.")],
    base: Annotated[
        Path | None, typer.Option(metavar="DIR", help=f"Of an adapter: {BASE[0].lower()}{BASE[1:]}")
    ] = None,
) -> None:
    """Write a Hugging Face model, or an adapter of PEFT's, as a native checkpoint, which loads at any topology."""
    from trainwright.runner.devices import use_device
    from trainwright.runner.huggingface.peft_settings import is_peft

    refuse_existing(target)
    if base is not None and not is_peft(source):
        raise UsageError(f"--base {base} is for an adapter; {source} holds no adapter_config.json")
    use_device("cpu")
    started = time.perf_counter()
    with showing(f"importing {source}") as progress:
        lines = (_import_adapter if is_peft(source) else _import_weights)(source, target, base, progress)
    for line in lines:
        print(line)
    print(f"{target}: {binary(size_of(target))} in {time.perf_counter() - started:.1f} s")


def _import_weights(source: Path, target: Path, base: Path | None, progress: Progress) -> list[str]:
    from trainwright.runner.checkpoints.conversion import import_huggingface
    from trainwright.runner.checkpoints.pretrained import describe

    weights = import_huggingface(source, target, progress)
    return [describe(weights), *(f"  {remark}" for remark in weights.remarks)]


def _import_adapter(source: Path, target: Path, base: Path | None, progress: Progress) -> list[str]:
    from trainwright.runner.checkpoints.adapter_conversion import describe, import_peft

    adapter = import_peft(source, target, base, progress)
    return [describe(adapter), *(f"  {remark}" for remark in adapter.remarks)]


def export(
    source: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="A native checkpoint or a run directory.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The directory to write; must not exist.")],
    step: Step = None,
    like: Annotated[
        Path | None,
        typer.Option(metavar="HF_DIR", help="Take tokenizer and generation settings from here."),
    ] = None,
    dtype: Dtype = None,
) -> None:
    """Write the weights of a checkpoint as a Hugging Face directory, which transformers loads; an adapter's in PEFT's
    format, which peft loads."""
    from trainwright.runner.checkpoints.adapter_conversion import holds_adapter
    from trainwright.runner.devices import use_device

    refuse_existing(target)
    if like is not None and not like.is_dir():
        raise UsageError(f"--like {like} is no directory")
    use_device("cpu")
    adapter = holds_adapter(source, step)
    if adapter and like is not None:
        raise UsageError(f"--like {like}: {source} holds an adapter, which has no tokenizer of its own")
    started = time.perf_counter()
    with showing(f"exporting {source}") as progress:
        if adapter:
            lines = _export_adapter(source, target, progress, step, dtype)
        else:
            lines = _export_weights(source, target, progress, step, dtype, like)
    print(f"{target}: {lines[0]}, {binary(size_of(target))} in {time.perf_counter() - started:.1f} s")
    for line in lines[1:]:
        print(f"  {line}")


def _export_weights(
    source: Path, target: Path, progress: Progress, step: int | None, dtype: Type | None, like: Path | None
) -> list[str]:
    from trainwright.runner.checkpoints.conversion import export_huggingface

    config = export_huggingface(source, target, progress, step=step, like=like, dtype=torch_type(dtype))
    what = f"{config['architectures'][0]}, {config['torch_dtype']}, {config['vocab_size']} tokens"
    if any((target / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json", "tokenizer.model")):
        return [what]
    return [what, "without a tokenizer: none came with the weights; --like HF_DIR takes one along"]


def _export_adapter(source: Path, target: Path, progress: Progress, step: int | None, dtype: Type | None) -> list[str]:
    from trainwright.runner.checkpoints.adapter_conversion import describe, export_adapter

    adapter, remarks = export_adapter(source, target, progress, step=step, dtype=torch_type(dtype))
    return [f"PEFT's format, {describe(adapter)}", *remarks]


def merge_lora(
    source: Annotated[
        Path,
        typer.Argument(metavar="ADAPTER", help="The run of an adapter, a native checkpoint, or a directory of PEFT's."),
    ],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="What to write; must not exist.")],
    base: Annotated[Path | None, typer.Option(metavar="DIR", help=BASE)] = None,
    step: Step = None,
    dtype: Dtype = None,
) -> None:
    """Merge an adapter into the weights that it was trained beside, and write them as what they are: a Hugging Face
    directory, or a native checkpoint."""
    from trainwright.runner.checkpoints.adapter_conversion import describe, merge
    from trainwright.runner.devices import use_device

    refuse_existing(target)
    if not source.is_dir():
        raise UsageError(f"{source} is not a directory; give the run of an adapter, its checkpoint, or one of PEFT's")
    use_device("cpu")
    started = time.perf_counter()
    with showing(f"merging {source}") as progress:
        merged, remarks = merge(source, target, progress, base=base, step=step, dtype=torch_type(dtype))
    print(f"{describe(merged.adapter)}, merged into {merged.path}")
    for remark in remarks:
        print(f"  {remark}")
    print(f"{target}: {binary(size_of(target))} in {time.perf_counter() - started:.1f} s")


def torch_type(name: Type | None) -> Any:
    """torch's own of a type that was asked for."""
    import torch

    return {Type.FP32: torch.float32, Type.BF16: torch.bfloat16, Type.FP16: torch.float16, None: None}[name]


def verify(
    first: Annotated[Path, typer.Argument(metavar="A", help="A Hugging Face directory or a native checkpoint.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another one.")],
    tokens: Annotated[int, typer.Option(metavar="N", min=1, help="Random tokens to compare on.")] = 32,
    tolerance: Annotated[float, typer.Option(metavar="X", min=0, help="Largest difference of logits.")] = 1e-4,
) -> int:
    """Compare the logits of two models; exit code 1 where they differ by more than the tolerance."""
    from trainwright.runner.checkpoints.verification import compare

    for path in (first, second):
        if not path.is_dir():
            raise UsageError(f"{path} is not a directory; give a Hugging Face directory or a native checkpoint")
    found = compare(first, second, tokens=tokens)
    agree = found.difference <= tolerance
    print(
        f"largest difference of logits {found.difference:.3g} over {found.tokens} tokens (largest logit "
        f"{found.largest:.3g}), tolerance {tolerance:g}: {'equal' if agree else 'NOT equal'}"
    )
    print(f"the same next token at {found.same_choice} of {found.tokens}")
    return 0 if agree else 1


def size_of(folder: Path) -> int:
    """Bytes of all files in it."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@contextmanager
def showing(what: str) -> Iterator[Callable[[int], None]]:
    """Bytes that are done, on a terminal; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import (
        DownloadColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )

    columns = (SpinnerColumn(), TextColumn("{task.description}"), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as display:
        task = display.add_task(what)
        yield lambda size: display.advance(task, size)


def refuse_existing(target: Path) -> None:
    if target.exists():
        raise UsageError(f"{target} exists; nothing is overwritten")
