"""`trainwright-data show`: samples as training reads them, with what is learnt marked."""

from __future__ import annotations

import warnings
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from trainwright_trainer.data_text import Painter, spans
from trainwright_trainer.data_words import Split, Words, refuse_split, run_of

if TYPE_CHECKING:
    from trainwright.datasets.preview import Sample, Segment
    from trainwright.recipes import ResolvedRun


def show(
    words: Words,
    split: Annotated[Split, typer.Option(help="Which part of the data.")] = "train",
    samples: Annotated[int, typer.Option(metavar="N", min=1, help="How many samples or packed rows.")] = 3,
    skip: Annotated[int, typer.Option(metavar="N", min=0, help="Begin behind so many samples of the run.")] = 0,
) -> None:
    """Print samples of a run as text, in its order and as its loader gives them. What is learnt is green on a terminal,
    and stands in ⟦brackets⟧ elsewhere."""
    from trainwright.datasets import build_tokenizer, check_data
    from trainwright.datasets.preview import preview

    resolved = run_of(words)
    refuse_split(resolved.config, split)
    check_data(resolved.config)
    _choose_device(resolved)
    tokenizer = build_tokenizer(resolved.config.tokenizer)
    painter = Painter()
    for sample in islice(preview(resolved.config, tokenizer, split, skip=skip), samples):
        painter.note(_title(sample))
        for number, segment in enumerate(sample.segments):
            painter.note(_about(segment, number if len(sample.segments) > 1 else None))
            if len(segment.ids):
                painter.paint(spans(segment.ids, segment.learn, tokenizer))


def _choose_device(resolved: ResolvedRun) -> None:
    """Before Megatron Core is imported, which rows of text need nothing of."""
    from trainwright.recipes.presets import ROW_KINDS

    if resolved.config.dataset.kind not in ROW_KINDS:
        from trainwright.runner.devices import use_device

        warnings.filterwarnings("ignore", "Could not determine rank")  # there is one process, and it is no rank
        use_device(resolved.device)


def _title(sample: Sample) -> str:
    last = sample.first + sample.places - 1
    return f"--- sample {sample.first}" + f" to {last}, in one row" * (last > sample.first)


def _about(segment: Segment, number: int | None) -> str:
    name = "" if number is None else f"sequence {number}: "
    padding = f"{segment.padding:,} padding"
    if not len(segment.ids):
        return f"{name}{padding}" + f", for a row left out: {segment.where}" * bool(segment.where)
    where = f"{segment.where}: " if segment.where else ""
    numbers = f"{len(segment.ids) - 1:,} tokens, {int(segment.learn.sum()):,} learnt"
    return f"{name}{where}{numbers}" + f", {padding}" * bool(segment.padding)
