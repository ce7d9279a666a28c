"""How a linear layer lies over tensor parallel ranks, and with it the two matrices beside it.

A has the layer's columns and B its rows. Where ranks split rows, A is whole on each and B split; where they split
columns, it is the other way round. What lies between A and B is `dim` wide, so it is what travels between ranks.

`down` multiplies with A and brings the result to where B needs it; `up` multiplies with B. The output of `up` is laid
out as the layer's own output. Under sequence parallelism a whole matrix sees a part of the sequence on each rank, and
its gradient there is a partial sum: `partial` says of which parameters.

Of experts, tokens are dispatched to ranks and gathered by the dispatcher, which adds up outputs of split columns and
gradients of inputs: both have to be partial. What adds up gradients of a whole matrix then is `_shared`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from megatron.core.tensor_parallel.mappings import (
    copy_to_tensor_model_parallel_region,
    gather_from_sequence_parallel_region,
    reduce_from_tensor_model_parallel_region,
    reduce_scatter_to_sequence_parallel_region,
)
from torch import Tensor

from trainwright.runner.adapters.linear import is_dispatched, sees_a_part_of_the_sequence, split_of

Product = Callable[[Tensor, Tensor, Any], Tensor]
"""Of x [..., in] and a matrix [out, in], in a group of ranks."""


@dataclass(frozen=True)
class Way:
    """One way to lie over ranks."""

    down: Product
    up: Product
    lora_a: int | None = None
    """The dimension of A that ranks split."""
    lora_b: int | None = None
    partial: tuple[str, ...] = ()
    """Parameters whose gradients are partial sums over the ranks that share the sequence."""
    shared: Callable[[Tensor, Any], Tensor] = lambda parameter, group: parameter
    """What a magnitude that is whole on each rank goes through."""


def _plain(x: Tensor, matrix: Tensor, group: Any) -> Tensor:
    return F.linear(x, matrix)


def _shared(matrix: Tensor, group: Any) -> Tensor:
    """The matrix, whose gradient becomes the sum over ranks."""
    same: Tensor = copy_to_tensor_model_parallel_region(matrix, group=group)
    return same


def _copied(x: Tensor, matrix: Tensor, group: Any) -> Tensor:
    narrow: Tensor = copy_to_tensor_model_parallel_region(F.linear(x, matrix), group=group)
    return narrow


def _gathered(x: Tensor, matrix: Tensor, group: Any) -> Tensor:
    narrow: Tensor = gather_from_sequence_parallel_region(
        F.linear(x, matrix), tensor_parallel_output_grad=True, group=group
    )
    return narrow


def _summed(x: Tensor, matrix: Tensor, group: Any) -> Tensor:
    narrow: Tensor = reduce_from_tensor_model_parallel_region(F.linear(x, matrix), group=group)
    return narrow


def _summed_in_parts(x: Tensor, matrix: Tensor, group: Any) -> Tensor:
    narrow: Tensor = reduce_scatter_to_sequence_parallel_region(F.linear(x, matrix), group=group)
    return narrow


def _of_shared(x: Tensor, matrix: Tensor, group: Any) -> Tensor:
    return F.linear(x, _shared(matrix, group))


ROWS = Way(_copied, _plain, lora_b=0)
ROWS_OF_SEQUENCE = Way(_gathered, _plain, lora_b=0, partial=("lora_a",))
ROWS_OF_EXPERT = Way(_of_shared, _plain, lora_b=0)
COLUMNS = Way(_summed, _plain, lora_a=1)
COLUMNS_OF_SEQUENCE = Way(_summed_in_parts, _plain, lora_a=1, partial=("lora_b", "magnitude"))
COLUMNS_OF_EXPERT = Way(_plain, _of_shared, lora_a=1, shared=_shared)
WHOLE = Way(_plain, _plain)
WHOLE_OF_SEQUENCE = Way(_plain, _plain, partial=("lora_a", "lora_b", "magnitude"))


WAYS = {
    "rows": (ROWS, ROWS_OF_SEQUENCE, ROWS_OF_EXPERT),
    "columns": (COLUMNS, COLUMNS_OF_SEQUENCE, COLUMNS_OF_EXPERT),
    None: (WHOLE, WHOLE_OF_SEQUENCE, WHOLE),
}
"""What ranks share out -> with the whole sequence, with parts of it, and with dispatched tokens."""


def way_of(layer: Any) -> Way:
    """How this layer lies over ranks. Raises `RunRefused` for a class of layers that is not known."""
    ways = WAYS[split_of(layer)]
    if is_dispatched(layer):
        return ways[2]
    return ways[1 if sees_a_part_of_the_sequence(layer) else 0]
