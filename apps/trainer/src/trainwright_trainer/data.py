"""`trainwright-data`: turn text into what training reads, look into it, list what `--dataset` can name."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from trainwright_trainer.data_corpus import inspect, prepare
from trainwright_trainer.data_pack import pack
from trainwright_trainer.data_show import show
from trainwright_trainer.data_words import RUN_WORDS
from trainwright_trainer.outcome import told

app = typer.Typer(
    add_completion=False,
    help="Prepare and inspect what training reads.",
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(prepare)
app.command()(inspect)
app.command(context_settings=RUN_WORDS)(pack)
app.command(context_settings=RUN_WORDS)(show)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line `words` (default: this process's own) and return the exit code."""
    words = sys.argv[1:] if words is None else words
    program = "trainwright-data"
    return told(program, lambda: app(words, prog_name=program, standalone_mode=False) or 0)


@app.command("list")
def list_selectors(
    name: Annotated[str | None, typer.Argument(help="Only this one.")] = None,
) -> None:
    """List what `run-recipe --dataset` can name: kind, modes, hub id; what it reads, and a note on its licence."""
    from trainwright.datasets.selectors import find_selector, selectors

    for found in selectors() if name is None else [find_selector(name)]:
        print(f"{found.name:<27} {found.kind:<15} {'/'.join(found.modes):<13} {found.hub_id or ''}".rstrip())
        print(f"    {found.reads}" + (f"; licence: {found.licence}" if found.licence else ""))
