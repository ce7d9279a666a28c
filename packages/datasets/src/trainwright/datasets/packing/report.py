"""How well sequences share rows, in numbers and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.datasets.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from trainwright.datasets.packing.dataset import PackedDataset


@dataclass(frozen=True)
class Efficiency:
    """What a packed dataset holds. Tokens are places of rows that train: an id less than a sequence has."""

    samples: int
    """Of the dataset, with those that were left out."""
    sequences: int
    """That were packed."""
    rows: int
    row_size: int
    alignment: int
    tokens: int
    supervised_tokens: int
    """Of `tokens`, those whose label is learnt."""
    alignment_padding: int
    """Places behind sequences that make their lengths multiples of `alignment`."""
    rest_padding: int
    """Places at the ends of rows that no sequence takes."""
    truncated_sequences: int
    truncated_tokens: int
    """Ids that were cut off because a sequence was longer than `dataset.seq_length`."""
    left_out: tuple[str, ...]
    """Why the first of the samples that were left out were."""

    @property
    def kept(self) -> float:
        """Share of all places that hold a token."""
        return self.tokens / (self.rows * self.row_size)

    @property
    def sequences_in_a_row(self) -> float:
        return self.sequences / self.rows


def efficiency(dataset: PackedDataset) -> Efficiency:
    """Counted from the rows on disk, and from what their builder noted of what is not on them."""
    artifact, alignment = dataset.artifact, dataset.alignment
    lengths = artifact.lengths()
    padded = int((-(-lengths // alignment) * alignment).sum())
    tokens = int(lengths.sum())
    return Efficiency(
        samples=artifact.description["samples"],
        sequences=len(lengths),
        rows=len(dataset),
        row_size=dataset.size,
        alignment=alignment,
        tokens=tokens,
        supervised_tokens=artifact.description["supervised_tokens"],
        alignment_padding=padded - tokens,
        rest_padding=len(dataset) * dataset.size - padded,
        truncated_sequences=artifact.description["truncated_sequences"],
        truncated_tokens=artifact.description["truncated_tokens"],
        left_out=tuple(artifact.description["left_out"]),
    )


def lines(found: Efficiency) -> list[str]:
    """The numbers for a person."""
    places = found.rows * found.row_size
    rows = {
        "rows": f"{found.rows:,} of {found.row_size:,} tokens, {found.sequences_in_a_row:.1f} sequences each",
        "sequences": f"{found.sequences:,}, each padded to a multiple of {found.alignment}",
        "kept": f"{found.kept:.2%} of all places: {found.tokens:,} tokens, {found.supervised_tokens:,} of them learnt",
        "padding": f"{1 - found.kept:.2%}: {found.alignment_padding:,} tokens behind sequences, "
        f"{found.rest_padding:,} at the ends of rows",
        "truncated": f"{found.truncated_sequences:,} of these sequences, by {found.truncated_tokens:,} tokens in all",
        "unpacked": f"{found.sequences * found.row_size / places:.1f} times as many places, were each sequence a row",
    }
    if found.left_out:
        missing, reasons = found.samples - found.sequences, "; ".join(found.left_out)
        rows["left out"] = f"{missing:,} samples: {reasons}" + "; ..." * (missing > len(found.left_out))
    return [f"{name:<10}  {text}" for name, text in rows.items()]


@dataclass(frozen=True)
class Panel:
    """One row of a picture."""

    title: str
    dataset: PackedDataset


def draw(panels: Sequence[Panel], path: Path) -> None:
    """A picture as PNG, a row for each panel: how long sequences are, and how full rows are.

    Raises:
        DataError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.6 * len(panels)), layout="constrained")
    for panel, (left, right) in zip(panels, figure.subplots(len(panels), 2, squeeze=False), strict=True):
        _draw_lengths(left, panel)
        _draw_rows(right, panel)
    try:
        figure.savefig(path, dpi=120, format="png")
    except OSError as error:
        raise DataError(f"{path}: cannot write there: {error.strerror or error}") from error


def _draw_lengths(axes: Axes, panel: Panel) -> None:
    lengths, size, found = panel.dataset.artifact.lengths(), panel.dataset.size, efficiency(panel.dataset)
    axes.hist(lengths, bins=min(60, size), range=(0, size), color="tab:blue")
    title = f"{panel.title}: {found.sequences:,} sequences, {found.truncated_sequences:,} truncated"
    axes.set(title=title, xlabel="tokens of a sequence", ylabel="sequences")


def _draw_rows(axes: Axes, panel: Panel) -> None:
    import numpy as np

    artifact, found = panel.dataset.artifact, efficiency(panel.dataset)
    row_of = np.repeat(np.arange(found.rows), np.diff(artifact.offsets))
    filled = np.bincount(row_of, weights=artifact.lengths()[artifact.order]) / found.row_size
    axes.hist(filled * 100, bins=50, range=(0, 100), color="tab:green")
    axes.set(title=f"{found.rows:,} rows of {found.row_size:,} tokens, {found.kept:.2%} of all places used")
    axes.set(xlabel="% of a row that is tokens", ylabel="rows (logarithmic)", yscale="log")
