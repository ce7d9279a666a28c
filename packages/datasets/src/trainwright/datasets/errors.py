"""The error of everything that reads data."""


class DataError(Exception):
    """Data, or the words that describe it, cannot be used. The message is one line: what, where, what is allowed."""

    exit_code = 2


class NotFetched(DataError):
    """What the hub has cannot be fetched from this machine; another one may."""
