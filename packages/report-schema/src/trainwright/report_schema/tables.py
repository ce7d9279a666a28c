"""Rows of text as a table: for a terminal, Markdown or a spreadsheet."""

import csv
import io
from collections.abc import Callable, Sequence

type Rows = Sequence[Sequence[str]]


def text_table(headings: Sequence[str], rows: Rows) -> str:
    """Columns aligned with spaces: the first to the left, the others to the right."""
    widths = [max(len(row[column]) for row in (headings, *rows)) for column in range(len(headings))]

    def line(row: Sequence[str]) -> str:
        first, *others = zip(row, widths, strict=True)
        return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)])

    return "".join(f"{line(row).rstrip()}\n" for row in (headings, *rows))


def markdown_table(headings: Sequence[str], rows: Rows) -> str:
    """A GitHub-flavoured table."""
    alignment = ["---", *["---:"] * (len(headings) - 1)]
    escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in (headings, alignment, *rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in escaped)


def csv_table(headings: Sequence[str], rows: Rows) -> str:
    """Comma-separated values (RFC 4180, with plain newlines)."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([headings, *rows])
    return stream.getvalue()


TABLE_FORMATS: dict[str, Callable[[Sequence[str], Rows], str]] = {
    "text": text_table,
    "markdown": markdown_table,
    "csv": csv_table,
}
