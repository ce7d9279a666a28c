"""The words of `trainwright report`; what they do is in `trainwright_login.report`, loaded when one of them is used."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]


@app.command()
def build(
    run: Run,
    exclude_after_restart: Annotated[
        int, typer.Option(metavar="N", min=0, help="Steps after each restart to leave out of the averages.")
    ] = 0,
) -> None:
    """Write training_report.json and its diagnostics into a run directory."""
    from trainwright_login import report

    raise typer.Exit(report.build(run, exclude_after_restart=exclude_after_restart))


@app.command()
def show(path: Annotated[Path, typer.Argument(metavar="PATH", help="A report, or its directory.")]) -> None:
    """Print a report for a person to read."""
    from trainwright_login import report

    raise typer.Exit(report.show(path))


@app.command()
def plot(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Reports, or their directories.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="A .png, .svg or .html file.")],
) -> None:
    """Draw loss, step time, memory and TFLOP/s of one or several runs."""
    from trainwright_login import report

    raise typer.Exit(report.plot(runs, output))


@app.command()
def schema(
    version: Annotated[str | None, typer.Argument(metavar="VERSION", help="By default the newest.")] = None,
) -> None:
    """Print the JSON Schema of the report."""
    from trainwright_login import report

    raise typer.Exit(report.schema(version))
