"""A comparison as text: for a terminal, a pull request, or a CI system."""

import json
from collections.abc import Callable
from dataclasses import asdict
from xml.etree import ElementTree

from trainwright.report_schema.compare import Comparison, MetricDifference
from trainwright.report_schema.tables import markdown_table, text_table

_HEADINGS = ("metric", "base", "new", "difference", "95% interval", "gate", "verdict")


def as_text(comparison: Comparison) -> str:
    """Differences of the configuration first, then a table of the metrics."""
    config = "".join(f"  {name}: {base!r} -> {new!r}\n" for name, base, new in comparison.config)
    return (
        (f"configuration differs:\n{config}\n" if config else "configuration: the same\n\n")
        + text_table(_HEADINGS, [_cells(metric) for metric in comparison.metrics])
        + "".join(f"{metric.metric}: {metric.note}\n" for metric in comparison.metrics if metric.note)
    )


def as_markdown(comparison: Comparison) -> str:
    """The same for a pull request."""
    config = markdown_table(
        ("configuration", "base", "new"), [(name, f"`{base!r}`", f"`{new!r}`") for name, base, new in comparison.config]
    )
    notes = "".join(f"\n- {metric.metric}: {metric.note}" for metric in comparison.metrics if metric.note)
    return (
        (f"{config}\n" if comparison.config else "The configurations are the same.\n\n")
        + markdown_table(_HEADINGS, [_cells(metric) for metric in comparison.metrics])
        + (f"{notes}\n" if notes else "")
    )


def as_json(comparison: Comparison) -> str:
    """All numbers unrounded; fractions, not percent."""
    config = [{"field": name, "base": base, "new": new} for name, base, new in comparison.config]
    metrics = [asdict(metric) for metric in comparison.metrics]
    document = {"failed": comparison.failed, "config": config, "metrics": metrics}
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def as_github(comparison: Comparison) -> str:
    """Annotations of a GitHub Actions job, one line a metric that has a gate, and one for the configuration."""
    lines = []
    if comparison.config:
        changes = "; ".join(f"{name}: {base!r} -> {new!r}" for name, base, new in comparison.config)
        lines.append(("notice", "configuration differs", changes))
    levels = {"pass": "notice", "unclear": "warning", "fail": "error"}
    for metric in comparison.metrics:
        if metric.verdict in levels:
            lines.append((levels[metric.verdict], f"{metric.metric}: {metric.verdict}", _sentence(metric)))
    return "".join(f"::{level} title={_escape(title, ',:')}::{_escape(text)}\n" for level, title, text in lines)


def as_junit(comparison: Comparison) -> str:
    """A JUnit test suite with one case a metric; one without a gate is skipped."""
    suite = ElementTree.Element(
        "testsuite",
        name="trainwright report compare",
        tests=str(len(comparison.metrics)),
        failures=str(sum(metric.verdict == "fail" for metric in comparison.metrics)),
        skipped=str(sum(metric.verdict == "no gate" for metric in comparison.metrics)),
        errors="0",
    )
    for metric in comparison.metrics:
        case = ElementTree.SubElement(suite, "testcase", classname="report.compare", name=metric.metric)
        if metric.verdict == "fail":
            ElementTree.SubElement(case, "failure", message=_sentence(metric))
        elif metric.verdict == "no gate":
            ElementTree.SubElement(case, "skipped", message="no gate")
        ElementTree.SubElement(case, "system-out").text = _sentence(metric)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


COMPARISON_FORMATS: dict[str, Callable[[Comparison], str]] = {
    "text": as_text,
    "json": as_json,
    "github": as_github,
    "junit": as_junit,
    "markdown": as_markdown,
}


def _cells(metric: MetricDifference) -> tuple[str, ...]:
    return (
        metric.metric,
        _number(metric.base),
        _number(metric.new),
        _percent(metric.difference),
        "-" if metric.interval is None else " to ".join(map(_percent, metric.interval)),
        "-" if metric.gate is None else f"{100 * metric.gate:.4g}%",
        metric.verdict,
    )


def _sentence(metric: MetricDifference) -> str:
    _, base, new, difference, both, gate, _ = _cells(metric)
    unit = f" {metric.unit}" if metric.unit else ""
    note = f" ({metric.note})" if metric.note else ""
    return f"{base} -> {new}{unit}: {difference}, 95% interval {both}, gate {gate}{note}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"


def _percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{100 * fraction:+.3g}%"


def _escape(text: str, also: str = "") -> str:
    """Percent-encode what GitHub's workflow commands reserve."""
    for character in "%\r\n" + also:
        text = text.replace(character, f"%{ord(character):02X}")
    return text
