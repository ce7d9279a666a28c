"""What a launch can end with instead of a job."""


class LaunchError(Exception):
    """The launch was refused before anything was started: one line that says what to change."""

    exit_code = 2


class SubmissionFailed(Exception):
    """The job was handed over and not taken: one line with the scheduler's own words."""

    exit_code = 1
