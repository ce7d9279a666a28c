"""How a run says that it cannot go on."""


class RunError(Exception):
    """Base of everything the runner tells its user in one line. `exit_code` is what the process ends with."""

    exit_code = 1


class RunRefused(RunError):
    """Nothing was trained: the run could not start as asked (exit 2)."""

    exit_code = 2


class RunFailed(RunError):
    """Training began and cannot be continued (exit 1)."""


class Diverged(RunFailed):
    """The numbers are no longer finite. Raised on every rank after the same update."""
