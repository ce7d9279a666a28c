"""`trainwright-checkpoint`: look at checkpoints, and bring models in and out."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from trainwright_trainer.checkpoint_convert import export, import_model, merge_lora, verify
from trainwright_trainer.checkpoint_look import inspect, list_checkpoints
from trainwright_trainer.outcome import told

app = typer.Typer(
    add_completion=False,
    help="Look at checkpoints, and bring models in and out.",
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("list")(list_checkpoints)
app.command()(inspect)
app.command("import")(import_model)
app.command()(export)
app.command("merge-lora")(merge_lora)
app.command()(verify)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line `words` (default: this process's own) and return the exit code."""
    words = sys.argv[1:] if words is None else words
    program = "trainwright-checkpoint"
    return told(program, lambda: app(words, prog_name=program, standalone_mode=False) or 0)
