"""The `trainwright` command. Each command's own imports happen when it is used, so that `--help` costs nothing."""

import errno
import os
import sys
import traceback
from io import TextIOWrapper
from typing import Annotated

import typer

from trainwright_login import report_commands
from trainwright_login.demo import demo
from trainwright_login.launch import launch, run
from trainwright_login.untouched import Untouched

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Launch, run and accept training.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(cls=Untouched)(launch)
app.command()(demo)
app.add_typer(report_commands.app, name="report", help="Build, show, compare and plot training reports.")


@app.command(cls=Untouched)
def audit(context: typer.Context) -> None:
    """Accept or refuse a run by its log."""
    from trainwright_login.audit import run

    raise typer.Exit(run(context.args))


@app.command(cls=Untouched)
def recipes(context: typer.Context) -> None:
    """List recipes, or show what one holds."""
    from trainwright_login.recipes import run

    raise typer.Exit(run(context.args))


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"trainwright {version('trainwright')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line of this process; a person's mistake is one line on stderr and an exit code."""
    if isinstance(sys.stdout, TextIOWrapper):
        # A word or a path may hold bytes that are no UTF-8: they go out as they came in.
        sys.stdout.reconfigure(errors="surrogateescape")
    try:
        # Typer would hand the words of `launch` on as they are, and import pydantic for it.
        is_launch = sys.argv[1:2] == ["launch"]
        code = run(sys.argv[2:]) if is_launch else app(prog_name="trainwright", standalone_mode=False)
        # Python itself may end with 0 although it could not write the last of the output.
        print(end="", flush=True)
    except KeyboardInterrupt:
        code = 130
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EDQUOT):
            raise
        code = 1
        # What is left must not fail once more. A closed pipe is no news: its reader has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            print(f"trainwright: {error}", file=sys.stderr)
    except Exception as error:
        code = getattr(error, "exit_code", None)
        if not isinstance(code, int):
            raise
        if os.environ.get("TRAINWRIGHT_DEBUG") == "1":
            traceback.print_exc()
        print(_told(error), file=sys.stderr)
    sys.exit(code)


def _told(error: Exception) -> str:
    """The line on stderr. A command group named alone is answered with its help, which Typer makes the error's text."""
    if not isinstance(error, typer.TyperException):
        return f"trainwright: {error}"
    message, context = error.format_message(), getattr(error, "ctx", None)
    if context is None or message.startswith("Usage: "):
        return str(message)
    return f"{context.command_path}: {message.removesuffix('.')} ({context.command_path} --help)"


if __name__ == "__main__":
    main()
