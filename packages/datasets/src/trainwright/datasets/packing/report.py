"""How well sequences share rows, in numbers and as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.datasets.errors import DataError

if TYPE_CHECKING:
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
        "truncated": f"{found.truncated_sequences:,} sequences by {found.truncated_tokens:,} tokens in all",
        "unpacked": f"{found.sequences * found.row_size / places:.1f} times as many places, a row for each sequence",
    }
    if found.left_out:
        missing, reasons = found.samples - found.sequences, "; ".join(found.left_out)
        rows["left out"] = f"{missing:,} samples: {reasons}" + "; ..." * (missing > len(found.left_out))
    return [f"{name:<10}  {text}" for name, text in rows.items()]


def draw(dataset: PackedDataset, path: Path) -> None:
    """A picture: how long sequences are, and how full rows are.

    Raises:
        DataError: the file cannot be written.
    """
    import numpy as np
    from matplotlib.figure import Figure

    lengths, found = dataset.artifact.lengths(), efficiency(dataset)
    row_of = np.repeat(np.arange(len(dataset)), np.diff(dataset.artifact.offsets))
    filled = np.bincount(row_of, weights=lengths[dataset.artifact.order]) / dataset.size
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.hist(lengths, bins=min(60, dataset.size), range=(0, dataset.size), color="tab:blue")
    left.set(title=f"{found.sequences:,} sequences", xlabel="tokens of a sequence", ylabel="sequences")
    if found.truncated_sequences:
        left.annotate(
            f"{found.truncated_sequences:,} truncated", (0.98, 0.96), xycoords="axes fraction", ha="right", va="top"
        )
    right.hist(filled * 100, bins=50, range=(0, 100), color="tab:green")
    right.set(title=f"{found.rows:,} rows of {found.row_size:,}, {found.kept:.2%} of all places kept")
    right.set(xlabel="% of a row that is tokens", ylabel="rows", yscale="log")
    try:
        figure.savefig(path, dpi=120, format="png")
    except OSError as error:
        raise DataError(f"{path}: cannot write there: {error.strerror or error}") from error
