"""`trainwright-data pack`: packed rows ahead of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainwright.recipes.words import UsageError
from trainwright_trainer.data_signals import stop_cleanly
from trainwright_trainer.data_words import Split, Words, refuse_split, run_of

if TYPE_CHECKING:
    from trainwright.recipes import ConfigContainer


def pack(
    words: Words,
    split: Annotated[Split | None, typer.Option(help="Which part of the data; by default what the run reads.")] = None,
    histogram: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw lengths of sequences and fill of rows.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Processes; by default one for each CPU.")
    ] = None,
) -> None:
    """Pack the sequences of a run ahead of it: a run of the same words finds the rows and uses them."""
    from trainwright.datasets import build_tokenizer, check_data
    from trainwright.datasets.check import wanted_splits
    from trainwright.datasets.packing import report
    from trainwright.datasets.sft.build import packed_datasets, sft_datasets

    config = run_of(words).config
    _refuse_unpacked(config)
    if split is not None:
        refuse_split(config, split)
    if histogram is not None and not histogram.absolute().parent.is_dir():
        raise UsageError(f"--histogram {histogram}: its folder does not exist")
    check_data(config)
    stop_cleanly()
    tokenizer = build_tokenizer(config.tokenizer)
    panels: list[report.Panel] = []
    for name in [split] if split else wanted_splits(config):
        opened = sft_datasets(config, tokenizer, name)
        packed = packed_datasets(opened, config, tokenizer, workers=workers, progress=True, say=_say)
        for number, part in enumerate(packed.parts, start=1):
            source = f"{name}, source {number} of {len(packed.parts)}" if len(packed.parts) > 1 else name
            panels.append(report.Panel(source, part))
            print(f"{source}: {part.folder}")
            for line in report.lines(report.efficiency(part)):
                print(f"  {line}")
    if histogram is not None:
        report.draw(panels, histogram)
        print(histogram)


def _refuse_unpacked(config: ConfigContainer) -> None:
    if not config.dataset.enable_offline_packing:
        raise UsageError(
            "dataset.enable_offline_packing is false, so a run of these words reads no packed rows; "
            "add dataset.enable_offline_packing=true train.micro_batch_size=1"
        )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
