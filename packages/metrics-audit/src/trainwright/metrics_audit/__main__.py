"""The audit command: ``python -m trainwright.metrics_audit RUN_DIRECTORY``."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trainwright.metrics_audit import names
from trainwright.metrics_audit.arguments import audit_parser, schema_parser
from trainwright.metrics_audit.audit import require_step, summarize
from trainwright.metrics_audit.bounds import Bounds, check
from trainwright.metrics_audit.formats import FORMATS, Outcome
from trainwright.metrics_audit.refusal import InvalidRun
from trainwright.metrics_audit.schema import SCHEMA_NAMES, schema

PROGRAM = "python -m trainwright.metrics_audit"


def main(arguments: Sequence[str] | None = None, *, program: str = PROGRAM) -> int:
    """Audit a run directory, or print schemas, as the words say (default: the command line's).

    Returns the exit status: 0 accepted, 1 refused, 2 for a usage error, 130 when it was left with Ctrl-C.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] == ["schema"]:
            return _print_schema(schema_parser(f"{program} schema").parse_args(words[1:]).name)
        options = audit_parser(program).parse_args(words)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    try:
        outcome = _audit(options)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    sys.stdout.write(FORMATS[options.format](outcome))
    if not outcome.faults:
        return 0
    print(f"Invalid training run: {'; '.join(outcome.faults)}", file=sys.stderr)
    return 1


def _audit(options: argparse.Namespace) -> Outcome:
    try:
        if options.follow:
            _follow(options)
        result = _summarize(options)
    except InvalidRun as refusal:
        return Outcome(options.run_directory, None, refusal, [])
    last = result["sessions"][-1] if options.all_sessions else result
    bounds = Bounds(**{name: getattr(options, name) for name in Bounds._fields})
    return Outcome(options.run_directory, result, None, check(last, bounds))


def _follow(options: argparse.Namespace) -> None:
    from trainwright.metrics_audit.follow import follow

    require_step("after_step", options.after_step)
    if options.expect_step is not None:
        require_step("expect_step", options.expect_step)
    with _Progress() as progress:
        follow(Path(options.run_directory), expect_step=options.expect_step, show=progress.show)


def _summarize(options: argparse.Namespace) -> dict[str, Any]:
    work = summarize
    if options.all_sessions:
        from trainwright.metrics_audit.all_sessions import summarize_all as work
    with _Progress() as progress:
        return work(
            options.run_directory,
            after_step=options.after_step,
            expect_step=options.expect_step,
            on_progress=progress.percent_of(Path(options.run_directory) / names.METRICS_FILE),
        )


class _Progress:
    """One line on stderr that is rewritten in place; where stderr is no terminal, lines of a log."""

    def __init__(self) -> None:
        self.on_terminal = sys.stderr.isatty()
        self.drawn = False

    def show(self, line: str) -> None:
        line = line if line.isprintable() else ascii(line)
        if self.on_terminal:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
            self.drawn = True
        else:
            print(line, file=sys.stderr, flush=True)

    def percent_of(self, path: Path) -> Callable[[int], None] | None:
        """Return a callback that shows how much of a file has been read, or None where nobody watches."""
        if not self.on_terminal or not path.is_file():
            return None
        size = max(1, path.stat().st_size)
        return lambda read: self.show(f"audited {min(1.0, read / size):.0%} of {path}")

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self.drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _print_schema(name: str | None) -> int:
    document = schema(name) if name else {each: schema(each) for each in SCHEMA_NAMES}
    print(json.dumps(document, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
