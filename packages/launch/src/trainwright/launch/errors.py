"""What a launch can end with instead of a job."""


def on_one_line(text: str) -> str:
    """`text` for a message, which may repeat what was typed: what no terminal shows stands as an escape."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


class _OneLine(Exception):
    def __str__(self) -> str:
        return on_one_line(super().__str__())


class LaunchError(_OneLine):
    """The launch was refused before anything was started: one line that says what to change."""

    exit_code = 2


class SubmissionFailed(_OneLine):
    """The job was handed over and not taken: one line with the scheduler's own words."""

    exit_code = 1
