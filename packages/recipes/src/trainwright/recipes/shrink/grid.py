"""Which dimensions of a run's grid of ranks a few ranks can hold."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from trainwright.recipes.errors import ConfigError

if TYPE_CHECKING:
    from trainwright.recipes.pipeline import ResolvedRun


@dataclass(frozen=True)
class Grid:
    """Sizes of the dimensions over which a run is laid. Experts share the ranks of tensor, context and data."""

    pipeline: int = 1
    chunks: int = 1
    """Model chunks of a pipeline stage; above 1 the schedule is interleaved."""
    tensor: int = 1
    experts: int = 1
    expert_tensor: int = 1
    context: int = 1
    data: int = 1

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.pipeline * self.tensor * self.context * self.data

    @property
    def stage_ranks(self) -> int:
        """Those of one pipeline stage."""
        return self.tensor * self.context * self.data

    def kept(self) -> set[str]:
        """Names of the dimensions that have more than one part."""
        return {field.name for field in fields(self) if getattr(self, field.name) > 1}

    def __str__(self) -> str:
        stages = f"PP {self.pipeline}" + (f" x VP {self.chunks}" if self.chunks > 1 else "")
        experts = f", EP {self.experts}" + (f", ETP {self.expert_tensor}" if self.expert_tensor > 1 else "")
        return (
            f"{stages}, TP {self.tensor}, CP {self.context}, DP {self.data}"
            f"{experts if self.experts * self.expert_tensor > 1 else ''}"
        )


SPOKEN = {
    "pipeline": "pipeline parallelism: stages, their layout, the schedule between them",
    "chunks": "the interleaved schedule (virtual stages)",
    "tensor": "tensor parallelism",
    "experts": "expert parallelism: tokens sent between ranks",
    "expert_tensor": "experts split by tensor parallelism",
    "context": "context parallelism",
    "data": "data parallelism: averaged gradients, optimizer state split between ranks",
}
"""Dimension -> what is not checked without it. Ties between dimensions go to the one named first."""


def grid_of(run: "ResolvedRun") -> Grid:
    """The grid of a run."""
    model = run.config.model
    experts = model.num_moe_experts is not None
    return Grid(
        pipeline=model.pipeline_model_parallel_size,
        chunks=model.virtual_pipeline_model_parallel_size or 1,
        tensor=model.tensor_model_parallel_size,
        experts=model.expert_model_parallel_size,
        expert_tensor=(model.expert_tensor_parallel_size or model.tensor_model_parallel_size) if experts else 1,
        context=model.context_parallel_size,
        data=run.data_parallel_size,
    )


def reduced(full: Grid, ranks: int) -> Grid:
    """The grid of `ranks` ranks that keeps the most of `full`'s dimensions; of equals, those named first in `SPOKEN`.

    A dimension is kept with any size from 2 to its own. Raises ConfigError where `ranks` cannot be made of such sizes.
    """
    grids = list(_grids(full, ranks))
    if not grids:
        possible = [str(size) for size in range(1, min(full.ranks, 64) + 1) if any(_grids(full, size))]
        raise ConfigError(f"--ranks {ranks}: a grid of {full} is reduced to {', '.join(possible)} ranks")
    return max(grids, key=_worth)


def enough_for_all(full: Grid) -> int:
    """The smallest number of ranks that keeps every dimension of `full`."""
    wanted = full.kept()
    least = math.prod(min(size, 2) for size in (full.pipeline, full.tensor, full.context, full.data))
    sizes = (
        ranks for ranks in range(least, full.ranks + 1) if any(grid.kept() == wanted for grid in _grids(full, ranks))
    )
    return next(sizes, full.ranks)


def _grids(full: Grid, ranks: int) -> Iterator[Grid]:
    """Every grid of so many ranks whose dimensions are no larger than `full`'s."""
    for pipeline in _divisors(ranks, full.pipeline):
        for tensor in _divisors(ranks // pipeline, full.tensor):
            for context in _divisors(ranks // pipeline // tensor, full.context):
                data = ranks // pipeline // tensor // context
                if data <= full.data:
                    yield from _with_experts(full, pipeline, tensor, context, data)


def _with_experts(full: Grid, pipeline: int, tensor: int, context: int, data: int) -> Iterator[Grid]:
    chunks = min(full.chunks, 2) if pipeline > 1 else 1
    stage = tensor * context * data
    for experts in _divisors(stage, full.experts):
        for expert_tensor in _divisors(stage // experts, min(full.expert_tensor, tensor)):
            yield Grid(pipeline, chunks, tensor, experts, expert_tensor, context, data)


def _divisors(number: int, largest: int) -> list[int]:
    return [size for size in range(1, min(number, largest) + 1) if number % size == 0]


def _worth(grid: Grid) -> tuple[int, list[bool], int, int]:
    kept = grid.kept()
    sizes = (grid.pipeline, grid.tensor, grid.context, grid.data)
    return len(kept), [name in kept for name in SPOKEN], -max(sizes), grid.experts
