"""The errors of this package. Each message is one line for the person who typed the command."""


class ReportError(Exception):
    """A report, or the evidence it is built from, cannot be used."""

    exit_code = 1


class UsageError(ReportError):
    """What was asked for makes no sense, whatever the evidence says."""

    exit_code = 2
