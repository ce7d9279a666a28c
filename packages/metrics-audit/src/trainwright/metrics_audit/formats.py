"""How the command shows an outcome: JSON, a table for a person, GitHub annotations, JUnit XML."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from trainwright.metrics_audit.bounds import Check
from trainwright.metrics_audit.refusal import InvalidRun


class Outcome(NamedTuple):
    """What came of one audit: a result (of `summarize` or `summarize_all`) or a refusal, and the bounds checked."""

    run_directory: str
    result: dict[str, Any] | None
    refusal: InvalidRun | None
    checks: list[Check]

    @property
    def faults(self) -> list[str]:
        """Every sentence against the run; none when it is accepted."""
        refused = [] if self.refusal is None else [str(self.refusal)]
        return refused + [check.fault for check in self.checks if check.fault is not None]


def as_json(outcome: Outcome) -> str:
    """The result as indented strict JSON; nothing for a refused run."""
    if outcome.faults:
        return ""
    return json.dumps(outcome.result, indent=2, allow_nan=False) + "\n"


def as_text(outcome: Outcome) -> str:
    """The result as a table; nothing for a refused run."""
    if outcome.result is None or outcome.faults:
        return ""
    return "".join(f"{label:<22}{value}\n" for label, value in _rows(outcome.result))


def as_github(outcome: Outcome) -> str:
    """Workflow commands of GitHub Actions: an error for each fault, else a notice.

    https://docs.github.com/actions/reference/workflow-commands-for-github-actions gives the form and the escapes.
    """
    if not outcome.faults:
        lines = [f"::notice title=Training run accepted::{_escaped(_sentence(outcome.result or {}))}"]
    else:
        lines = [
            f"::error title=Training run refused::{_escaped(check.fault)}" for check in outcome.checks if check.fault
        ]
        if outcome.refusal is not None:
            lines.insert(0, _github_refusal(outcome.run_directory, outcome.refusal))
    return "\n".join(lines) + "\n"


def as_junit(outcome: Outcome) -> str:
    """A JUnit XML document: one test case for the session log and one for each bound."""
    from xml.etree import ElementTree

    cases = [("session log", None if outcome.refusal is None else str(outcome.refusal))]
    cases += [(check.flag, check.fault) for check in outcome.checks]
    failures = sum(fault is not None for _, fault in cases)
    suite = ElementTree.Element(
        "testsuite", name="trainwright audit", tests=str(len(cases)), failures=str(failures), errors="0", skipped="0"
    )
    for name, fault in cases:
        case = ElementTree.SubElement(suite, "testcase", classname=_printable(outcome.run_directory), name=name)
        if fault is not None:
            ElementTree.SubElement(case, "failure", message=_printable(fault), type="InvalidRun")
    if outcome.result is not None:
        ElementTree.SubElement(suite, "system-out").text = json.dumps(outcome.result, indent=2, allow_nan=False)
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


FORMATS: dict[str, Callable[[Outcome], str]] = {
    "json": as_json,
    "text": as_text,
    "github": as_github,
    "junit": as_junit,
}


def _rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    if "totals" not in result:
        return _session_rows(result)
    rows = [("run", _printable(result["run_id"]))]
    rows += [(_printable(summary["session_id"]), _sentence(summary)) for summary in result["sessions"]]
    rows += [(_printable(passed["session_id"]), f"passed over: {passed['reason']}") for passed in result["passed_over"]]
    totals = result["totals"]
    return [
        *rows,
        ("restarts", f"{totals['restarts']:,}"),
        ("tokens trained", f"{totals['tokens_trained']:,}"),
        ("tokens lost", f"{totals['tokens_lost']:,} (rolled back)"),
        ("wall time", f"{totals['wall_seconds']:,.1f} s"),
    ]


def _session_rows(summary: dict[str, Any]) -> list[tuple[str, str]]:
    qk_clip, memory = summary["qk_clip"], summary["memory"]
    return [
        ("run", _printable(summary["run_id"])),
        ("session", f"{_printable(summary['session_id'])}, the last of {summary['sessions']}"),
        ("recipe", _printable(f"{summary['recipe']['name']} ({summary['recipe']['mode']})")),
        ("hardware", _printable(f"{summary['hardware']['world_size']} x {summary['hardware']['device']}")),
        ("steps", _steps(summary)),
        ("updates", f"{summary['updates']:,}, and {summary['skipped_updates']:,} skipped"),
        ("tokens", f"{summary['tokens']:,}"),
        ("loss", f"{summary['first_loss']:.6g} to {summary['last_loss']:.6g}"),
        ("gradient norm", f"at most {summary['gradient_norm_max']:.6g}; not finite: "
                          f"{summary['nonfinite_gradient_norms']:,}"),
        ("clipped updates", f"{summary['gradient_clipped_fraction']:.2%}"),
        ("QK-Clip", f"threshold {_number(qk_clip['threshold'])}, largest logit {_number(qk_clip['max_logit'])},"
                    f" clipped fraction {_number(qk_clip['clipped_fraction'])}"),
        ("steady rate", f"{_number(summary['steady_train_tokens_per_second'])} tokens/s in training alone"),
        ("session rate", f"{_number(summary['session_wall_tokens_per_second'])} tokens/s of wall time"),
        ("peak memory", f"{memory['peak_allocated_bytes']:,} bytes allocated, "
                        f"{memory['peak_reserved_bytes']:,} reserved"),
        ("profiled", "yes" if summary["profiled"] else "no"),
    ]  # fmt: skip


def _sentence(result: dict[str, Any]) -> str:
    """One line about a session, or about a run of several."""
    if "totals" in result:
        totals = result["totals"]
        return (
            f"run {result['run_id']}: {totals['restarts']} restarts, {totals['tokens_trained']:,} tokens trained,"
            f" {totals['tokens_lost']:,} lost"
        )
    return _printable(
        f"{result['recipe']['name']}: steps {_steps(result)}, loss {result['last_loss']:.6g},"
        f" {_number(result['steady_train_tokens_per_second'])} tokens/s"
    )


def _steps(summary: dict[str, Any]) -> str:
    end = "completed" if summary["completed"] else "no session_end"
    return f"{summary['start_step']:,} to {summary['last_step']:,}, {end}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:,.6g}"


def _github_refusal(run_directory: str, refusal: InvalidRun) -> str:
    properties = "title=Training run refused"
    if refusal.file is not None:
        properties += f",file={_escaped_property(f'{run_directory}/{refusal.file}')}"
    if refusal.line is not None:
        properties += f",line={refusal.line}"
    return f"::error {properties}::{_escaped(str(refusal))}"


def _escaped(message: str) -> str:
    return _printable(message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _escaped_property(value: str) -> str:
    return _escaped(value).replace(":", "%3A").replace(",", "%2C")


def _printable(words: str) -> str:
    """The words in plain ASCII: what an odd locale, a terminal or XML could choke on is written as escapes."""
    return words if words.isascii() and words.isprintable() else words.encode("unicode_escape").decode("ascii")
