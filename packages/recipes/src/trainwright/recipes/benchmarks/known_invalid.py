"""Public benchmark recipes that cannot run as they stand, and why."""

KNOWN_INVALID: dict[str, str] = {}
