"""``trainwright audit``: hands its words to the audit command of `trainwright.metrics_audit`."""

from trainwright.metrics_audit.__main__ import main


def run(arguments: list[str]) -> int:
    """Run the audit command on the words after ``audit``; returns its exit status (0, 1 or 2)."""
    return main(arguments, program="trainwright audit")
