"""The words of `trainwright report`; what they do is in `trainwright_login.report`, loaded when one of them is used."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")]


@app.command()
def build(
    run: Run,
    workload: Annotated[
        str, typer.Option(metavar="NAME", help="trainwright, nemo-run, megatron-run, megatron-bridge; auto finds out.")
    ] = "auto",
    system: Annotated[Path | None, typer.Option(metavar="FILE", help="CloudAI's system definition.")] = None,
    tests_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="CloudAI's test definitions.")] = None,
    scenario: Annotated[Path | None, typer.Option(metavar="FILE", help="CloudAI's scenario definition.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="Comes before what files say."),
    ] = None,
    exclude_after_restart: Annotated[
        int, typer.Option(metavar="N", min=0, help="Steps after each restart to leave out of the averages.")
    ] = 0,
) -> None:
    """Write training_report.json into a run directory.

    The run may be one of NeMo, Megatron-LM or Megatron Bridge. Diagnostics go beside the report.
    """
    from trainwright_login import report

    raise typer.Exit(
        report.build(
            run,
            workload=workload,
            system=system,
            tests_dir=tests_dir,
            scenario=scenario,
            settings=settings or (),
            exclude_after_restart=exclude_after_restart,
        )
    )


@app.command()
def show(path: Annotated[Path, typer.Argument(metavar="PATH", help="A report, or its directory.")]) -> None:
    """Print a report for a person to read."""
    from trainwright_login import report

    raise typer.Exit(report.show(path))


@app.command()
def plot(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Reports, or their directories.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="A .png, .svg or .html file.")],
) -> None:
    """Draw loss, step time, memory and TFLOP/s of one or several runs."""
    from trainwright_login import report

    raise typer.Exit(report.plot(runs, output))


@app.command()
def compare(
    base: Annotated[Path, typer.Argument(metavar="BASE", help="A report, or its directory.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The newer one.")],
    max_slowdown: Annotated[str | None, typer.Option(metavar="3%", help="Fail if step time grew by more.")] = None,
    max_memory_growth: Annotated[str | None, typer.Option(metavar="2%", help="Fail if memory grew by more.")] = None,
    loss_tolerance: Annotated[
        str | None, typer.Option(metavar="0.1%", help="Fail if the loss differs by more, up or down.")
    ] = None,
    format: Annotated[str, typer.Option(metavar="NAME", help="text, json, github, junit or markdown.")] = "text",
) -> None:
    """Compare two reports, with gates for a CI job.

    Exit code 1 if a difference is past its gate with its whole 95% interval. A gate is 3% or 0.03.
    """
    from trainwright_login import report

    raise typer.Exit(
        report.compare(
            base,
            new,
            max_slowdown=max_slowdown,
            max_memory_growth=max_memory_growth,
            loss_tolerance=loss_tolerance,
            format=format,
        )
    )


@app.command()
def table(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Reports, or their directories.")],
    sort_by: Annotated[str | None, typer.Option(metavar="COLUMN", help="A column's heading.")] = None,
    descending: Annotated[bool, typer.Option("--descending", help="Largest first.")] = False,
    format: Annotated[str, typer.Option(metavar="NAME", help="text, markdown or csv.")] = "text",
) -> None:
    """Print one row a report."""
    from trainwright_login import report

    raise typer.Exit(report.table(runs, sort_by=sort_by, descending=descending, format=format))


@app.command()
def upgrade(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="A report from before schema 1.0, or with gaps.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Where to write the complete one.")],
) -> None:
    """Complete an older report, saying what had to be filled in."""
    from trainwright_login import report

    raise typer.Exit(report.upgrade(old, new))


@app.command()
def schema(
    version: Annotated[str | None, typer.Option(metavar="VERSION", help="By default the newest.")] = None,
) -> None:
    """Print the JSON Schema of the report."""
    from trainwright_login import report

    raise typer.Exit(report.schema(version))
