"""The one error of this package."""


class ConfigError(ValueError):
    """The words typed do not describe a run that can start.

    The message is one line: what was wrong, where, and what is allowed. A command that catches it prints the
    message and exits with `exit_code`.
    """

    exit_code = 2
