"""`trainwright launch`: send run-recipe's words to where they run."""

from typing import Annotated

import typer

WORDS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": ["--help"]}
"""Settings of a command that hands on every word it does not know, as typed and in order; `-h` is such a word."""

# Planned executors are refused by name, so that nobody takes them for misspelt.
PLANNED = ("slurm",)


def launch(
    context: typer.Context,
    executor: Annotated[
        str, typer.Option(metavar="NAME", help="Where to run: local, which is this machine.")
    ] = "local",
    nproc_per_node: Annotated[
        int, typer.Option("--nproc-per-node", "--nproc_per_node", metavar="N", help="Ranks on this machine.")
    ] = 1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "--dry_run", help="Check the words and print the command; run nothing.")
    ] = False,
) -> None:
    """Check a recipe's words and run it.

    Words other than the options below go to run-recipe as typed; `run-recipe --help` lists them. They are checked
    before any rank starts. Ctrl-C and SIGTERM stop the run in good order, after a checkpoint; the same command with
    the same --run-dir continues it.

    Example: trainwright launch --nproc-per-node 2 --recipe vanilla_gpt_pretrain_config --dataset mock -tp 2
    --run-dir runs/mine -ms 10

    Exit codes: 0 done, 1 the run failed, 2 refused before the first step, 75 stopped early in good order.
    """
    from trainwright.launch import LaunchError, launch_local

    if executor in PLANNED:
        raise LaunchError(f"--executor {executor}: not available yet; local runs on this machine")
    if executor != "local":
        raise LaunchError(f"--executor {executor}: no such executor; local runs on this machine")
    raise typer.Exit(launch_local(context.args, nproc_per_node=nproc_per_node, dry_run=dry_run))
