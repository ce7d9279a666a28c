"""`trainwright-checkpoint import`, `export` and `verify`: models in and out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trainwright.recipes.words import UsageError
from trainwright_trainer.sizes import binary


class Type(StrEnum):
    """Types of weights that can be asked for."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"


def import_model(
    source: Annotated[Path, typer.Argument(metavar="HF_DIR", help="A Hugging Face directory with safetensors.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The native checkpoint to write; must not exist.")],
) -> None:
    """Write a Hugging Face model as a native checkpoint, which loads at any topology."""
    from trainwright.runner.checkpoints.conversion import import_huggingface
    from trainwright.runner.devices import use_device

    _refuse_existing(target)
    use_device("cpu")
    from trainwright.runner.checkpoints.pretrained import describe

    started = time.perf_counter()
    with showing(f"importing {source}") as progress:
        weights = import_huggingface(source, target, progress)
    print(describe(weights))
    for remark in weights.remarks:
        print(f"  {remark}")
    print(f"{target}: {binary(size_of(target))} in {time.perf_counter() - started:.1f} s")


def export(
    source: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="A native checkpoint or a run directory.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="The Hugging Face directory to write; must not exist.")],
    step: Annotated[int | None, typer.Option(metavar="N", help="This step of a run and not the latest.")] = None,
    like: Annotated[
        Path | None,
        typer.Option(metavar="HF_DIR", help="Take tokenizer and generation settings from here."),
    ] = None,
    dtype: Annotated[Type | None, typer.Option(help="Type of the weights; by default the one they have.")] = None,
) -> None:
    """Write the weights of a checkpoint as a Hugging Face directory, which transformers loads."""
    from trainwright.runner.checkpoints.conversion import export_huggingface
    from trainwright.runner.devices import use_device

    _refuse_existing(target)
    if like is not None and not like.is_dir():
        raise UsageError(f"--like {like} is no directory")
    use_device("cpu")
    import torch

    types = {Type.FP32: torch.float32, Type.BF16: torch.bfloat16, Type.FP16: torch.float16}
    started = time.perf_counter()
    with showing(f"exporting {source}") as progress:
        config = export_huggingface(
            source, target, progress, step=step, like=like, dtype=types[dtype] if dtype else None
        )
    print(
        f"{target}: {config['architectures'][0]}, {config['torch_dtype']}, {config['vocab_size']} tokens, "
        f"{binary(size_of(target))} in {time.perf_counter() - started:.1f} s"
    )
    if not any((target / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json", "tokenizer.model")):
        print("  without a tokenizer: none came with the weights; --like HF_DIR takes one along")


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


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise UsageError(f"{target} exists; nothing is overwritten")
