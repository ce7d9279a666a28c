"""The last linear layer of an expert."""

from __future__ import annotations

from typing import Any

from megatron.core.tensor_parallel.layers import RowParallelLinear


class ExpertRowParallelLinear(RowParallelLinear):
    """`RowParallelLinear` that leaves the sum over ranks to the token dispatcher, also where there is nothing to sum.

    Where experts are neither split nor spread, Megatron Core sends the output through a reduction of one rank, which
    hands out a view, and then adds the bias in place, which autograd refuses.

    Its bias is no parameter of sequence parallelism: the ranks of a tensor parallel group may hold other experts, and
    those that hold the same ones add gradients up as data parallel ranks. Megatron Core marks it, and would sum twice.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.explicit_expert_comm = True
        if self.bias is not None:
            self.bias.sequence_parallel = False
