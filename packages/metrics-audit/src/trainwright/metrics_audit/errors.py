"""What the writer of the session log raises."""


class SessionLogError(RuntimeError):
    """The session log cannot be opened, continued or written; the message is one line that says why."""


class RunDirectoryBusy(SessionLogError):
    """Another process is writing to this run directory."""


class InvalidRecord(SessionLogError, ValueError):
    """What was to be written cannot stand in the log: a non-finite number, a missing or foreign key, no JSON type."""
