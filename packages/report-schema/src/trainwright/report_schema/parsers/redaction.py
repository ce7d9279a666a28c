"""Keeping secrets out of reports."""

import re
from collections.abc import Mapping
from typing import Any

REDACTED = "<redacted>"

_SECRET_NAME = re.compile(
    r"token([_-]|$)|secret|passw(or)?d|passphrase|credential|authorization|_pwd$|_pat$"
    r"|(api|access|private|secret|signing|encryption|account|auth|license)[_-]?key",
    re.IGNORECASE,
)
_PASSWORD_IN_URL = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+(?=@)")


def redact(variables: Mapping[str, Any]) -> dict[str, Any]:
    """A copy in which the values of variables with a secret's name, and passwords inside URLs, are not shown."""
    return {name: _redacted(name, value) for name, value in variables.items()}


def _redacted(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return redact(value)
    if value in (None, ""):
        return value
    if _SECRET_NAME.search(name):
        return REDACTED
    return _PASSWORD_IN_URL.sub(rf"\1:{REDACTED}", value) if isinstance(value, str) else value
