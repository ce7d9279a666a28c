"""The one error of this package."""


class ConfigError(ValueError):
    """The words typed do not describe a run that can start.

    The message is one line: what was wrong, where, and what is allowed. A command that catches it prints the
    message and exits with `exit_code`.
    """

    exit_code = 2

    def __init__(self, message: str) -> None:
        # A value may hold line breaks; the message stays one line.
        super().__init__("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message))
