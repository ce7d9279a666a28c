"""The same sequences as one packed row and as padded rows, made by hand and not by the code that packs."""

from collections.abc import Sequence
from typing import Any

import torch

LENGTHS = (13, 24, 3, 16, 7)
"""Labels of each sequence; with an alignment of 4 they fill 68 places, and with what is left of the row 72."""
ALIGNMENT = 4
ROW = 72
PADDING = 0


def sequences(vocabulary: int, lengths: Sequence[int] = LENGTHS) -> list[dict[str, torch.Tensor]]:
    """Random tokens, the labels that follow them, and a mask that leaves out the first third as a prompt."""
    random = torch.Generator().manual_seed(5)
    made = []
    for length in lengths:
        ids = torch.randint(1, vocabulary, (length + 1,), generator=random)
        learnt = (torch.arange(length) >= length // 3).float()
        made.append({"tokens": ids[:-1], "labels": ids[1:], "loss_mask": learnt})
    return made


def padded(rows: Sequence[dict[str, torch.Tensor]], length: int) -> dict[str, torch.Tensor]:
    """A micro-batch [sequences, length], one sequence a row."""
    batch = {
        name: torch.stack(
            [torch.nn.functional.pad(row[name], (0, length - len(row[name])), value=PADDING) for row in rows]
        )
        for name in rows[0]
    }
    return batch | {"position_ids": torch.arange(length).expand(len(rows), length).contiguous()}


def packed(rows: Sequence[dict[str, torch.Tensor]], row: int = ROW, alignment: int = ALIGNMENT) -> dict[str, Any]:
    """One row [1, row]: each sequence up to a multiple of the alignment, and the rest as a sequence of padding."""
    aligned = [-(-len(sequence["tokens"]) // alignment) * alignment for sequence in rows]
    lengths = aligned + ([row - sum(aligned)] if sum(aligned) < row else [])
    nothing = {name: torch.empty(0, dtype=values.dtype) for name, values in rows[0].items()}
    filled = [*rows, *[nothing] * (len(lengths) - len(rows))]
    batch = {
        name: torch.cat(
            [
                torch.nn.functional.pad(sequence[name], (0, length - len(sequence[name])), value=PADDING)
                for sequence, length in zip(filled, lengths, strict=True)
            ]
        )[None]
        for name in rows[0]
    }
    return batch | {
        "position_ids": torch.cat([torch.arange(length) for length in lengths])[None],
        "cu_seqlens": torch.tensor([0, *lengths]).cumsum(0).to(torch.int32),
        "max_seqlen": torch.tensor(max(lengths), dtype=torch.int32),
    }
