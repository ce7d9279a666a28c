"""What the person who typed is told when something is wrong, and the exit code."""

import os
import sys
import traceback
from collections.abc import Callable

DEBUG = "TRAINWRIGHT_DEBUG"


def told(program: str, body: Callable[[], int], *, silent: Callable[[Exception | None], bool] | None = None) -> int:
    """Run `body` and return its exit code; an error that is meant for a person becomes one line on stderr.

    Such an error is one that says its own `exit_code`. Any other is a fault of ours and passes through with its
    traceback. `silent` says whether another process tells it (null stands for an interrupt from the keyboard).
    """
    try:
        return body()
    except Exception as error:
        code = getattr(error, "exit_code", None)
        if not isinstance(code, int):
            raise
        if silent is None or not silent(error):
            if os.environ.get(DEBUG) == "1":
                traceback.print_exc()
            print(f"{program}: {one_line(error)}", file=sys.stderr)
        return code
    except KeyboardInterrupt:
        if silent is None or not silent(None):
            print(f"{program}: interrupted", file=sys.stderr)
        return 1


def one_line(error: Exception) -> str:
    """The message without its line breaks, which a user's own words may hold."""
    # Typer's errors keep the useful part of their message in a method.
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    return " ".join(str(message).split("\n"))
