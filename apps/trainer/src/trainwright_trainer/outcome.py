"""What the person who typed is told when something is wrong, and the exit code."""

import os
import sys
import traceback
from collections.abc import Callable

DEBUG = "TRAINWRIGHT_DEBUG"


def say(error: BaseException, line: str) -> None:
    """Print the line to stderr."""
    print(line, file=sys.stderr, flush=True)


def told(program: str, body: Callable[[], int], *, tell: Callable[[BaseException, str], None] = say) -> int:
    """Run `body` and return its exit code; an error that is meant for a person becomes one line on stderr.

    Such an error is one that says its own `exit_code`, or an interrupt from the keyboard. Any other is a fault of ours
    and passes through with its traceback. `tell` decides whether and how this process says the line.
    """
    try:
        return body()
    except KeyboardInterrupt as interrupt:
        tell(interrupt, f"{program}: interrupted")
        return 1
    except Exception as error:
        code = getattr(error, "exit_code", None)
        if not isinstance(code, int):
            raise
        if os.environ.get(DEBUG) == "1":
            traceback.print_exc()
        tell(error, f"{program}: {one_line(error)}")
        return code


def one_line(error: Exception) -> str:
    """The message without its line breaks, which a user's own words may hold."""
    message = str(error)
    # Typer's errors keep the useful part of their message in a method.
    if hasattr(error, "format_message"):
        message = error.format_message().removesuffix(".")
        context = getattr(error, "ctx", None)
        message += f" ({context.command_path} --help)" if context is not None else ""
    return " ".join(message.split("\n"))
