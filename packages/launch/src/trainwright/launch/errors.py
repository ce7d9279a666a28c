"""What a launch can be refused for."""


class LaunchError(Exception):
    """The launch was refused before anything was started: one line that says what to change."""

    exit_code = 2
