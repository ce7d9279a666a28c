"""What the person who typed is told when something is wrong, and the exit code."""

import os
import sys
import traceback
from collections.abc import Callable

DEBUG = "TRAINWRIGHT_DEBUG"


def told(program: str, body: Callable[[], int], *, speaks: Callable[[], bool] = lambda: True) -> int:
    """Run `body` and return its exit code; an error that is meant for a person becomes one line on stderr.

    Such an error is one that says its own `exit_code`. Any other is a fault of ours and passes through with its
    traceback. `speaks` says whether this process is the one that talks.
    """
    try:
        return body()
    except Exception as error:
        code = getattr(error, "exit_code", None)
        if not isinstance(code, int):
            raise
        if speaks():
            if os.environ.get(DEBUG) == "1":
                traceback.print_exc()
            print(f"{program}: {one_line(str(error))}", file=sys.stderr)
        return code
    except KeyboardInterrupt:
        if speaks():
            print(f"{program}: interrupted", file=sys.stderr)
        return 1


def one_line(text: str) -> str:
    """The text with its line breaks turned into spaces: a user's own words may hold some."""
    return " ".join(text.split("\n"))
