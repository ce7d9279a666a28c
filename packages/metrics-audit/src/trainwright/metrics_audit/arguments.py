"""The words of the audit command."""

import argparse
import math
from typing import NoReturn

from trainwright.metrics_audit.formats import FORMATS
from trainwright.metrics_audit.schema import SCHEMA_NAMES


class _Parser(argparse.ArgumentParser):
    """Usage errors in one line, with the nearest flag for a misspelt one."""

    def error(self, message: str) -> NoReturn:
        kind, _, words = message.partition("unrecognized arguments: ")
        if words.startswith("-") and not kind:
            from difflib import get_close_matches

            near = get_close_matches(words.split()[0].split("=")[0], self._option_string_actions, n=1)
            message += f" (did you mean {near[0]}?)" if near else ""
        self.exit(2, f"{self.prog}: {message}; see --help\n")


def audit_parser(program: str) -> argparse.ArgumentParser:
    """Return the parser of ``program RUN_DIRECTORY [flags]``."""
    parser = _Parser(
        prog=program,
        allow_abbrev=False,
        description="Audit the session log of a run directory and print a summary of its last session.",
        epilog=f"'{program} schema' prints the JSON Schemas of the log. Exit status: 0 accepted, 1 refused, 2 usage.",
    )
    parser.add_argument("run_directory", help="holds run.json and metrics.jsonl")
    for flag, default, meaning in (
        ("--after-step", 0, "windows that begin at or after step N count for the steady rate (default 0)"),
        ("--expect-step", None, "refuse a run whose last session did not end normally at exactly step N"),
    ):
        parser.add_argument(flag, type=_integer, default=default, metavar="N", help=meaning)
    for flag, meaning in (
        ("--all-sessions", "audit every session, and where each one started; bounds concern the last"),
        ("--follow", "watch a live run until its session ends, then audit it"),
    ):
        parser.add_argument(flag, action="store_true", help=meaning)
    meaning = "json (default), text for a person, github annotations, junit XML"
    parser.add_argument("--format", choices=tuple(FORMATS), default="json", help=meaning)
    bounds = parser.add_argument_group("bounds", "refuse a run whose summary does not keep to them")
    for flag, kind, meaning in (
        ("--min-tokens-per-second", _at_least_zero, "of the steady rate"),
        ("--max-loss", _finite, "of the last window's loss"),
        ("--max-skipped-fraction", _fraction, "of skipped among attempted updates, 0 to 1"),
        ("--max-clipped-fraction", _fraction, "of clipped among successful updates, 0 to 1"),
    ):
        bounds.add_argument(flag, type=kind, metavar="X", help=meaning)
    return parser


def schema_parser(program: str) -> argparse.ArgumentParser:
    """Return the parser of ``program [NAME]``."""
    parser = _Parser(prog=program, allow_abbrev=False, description="Print the JSON Schemas of the session log.")
    parser.add_argument("name", nargs="?", choices=SCHEMA_NAMES, help="one of them (default: all, by name)")
    return parser


def _integer(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{word[:40]!r} is no integer") from None


def _finite(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{word[:40]!r} is no finite number")
    return value


def _at_least_zero(word: str) -> float:
    value = _finite(word)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{word} is negative")
    return value


def _fraction(word: str) -> float:
    value = _finite(word)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{word} is not from 0 to 1")
    return value
