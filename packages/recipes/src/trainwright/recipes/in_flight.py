"""Megatron Core's pipeline schedules as arithmetic: the passes of a stage in their order, and what is held between."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain


@dataclass(frozen=True)
class Pipeline:
    """How micro-batches pass a pipeline."""

    stages: int
    chunks: int
    """Model chunks of each stage; above one the schedule is interleaved."""
    micro_batches: int
    """Of one update, on each data parallel rank."""
    group: int
    """Micro-batches that pass a chunk before the next chunk has its turn (interleaved)."""

    def passes(self, stage: int) -> Iterator[tuple[bool, int]]:
        """Of a stage: (forward, its model chunk), in the order of Megatron Core 0.19's 1F1B schedules.

        Narayanan et al. 2021 (arXiv:2104.04473, section 2.2): as many forward passes as it takes until the first
        gradient arrives, then one forward and one backward pass in turn, then the backward passes that are left.
        """
        forwards = self._chunks_in_turn()
        backwards = [self.chunks - 1 - chunk for chunk in forwards]
        ahead = min(self.ahead(stage), len(forwards))
        yield from ((True, chunk) for chunk in forwards[:ahead])
        yield from chain.from_iterable(
            ((True, forward), (False, backward)) for forward, backward in zip(forwards[ahead:], backwards, strict=False)
        )
        yield from ((False, chunk) for chunk in backwards[len(forwards) - ahead :])

    def ahead(self, stage: int) -> int:
        """Forward passes of a stage before its first backward pass, but for one."""
        later = self.stages - stage - 1
        if self.stages == 1:
            return 0
        return later if self.chunks == 1 else 2 * later + (self.chunks - 1) * self.group

    def _chunks_in_turn(self) -> list[int]:
        begins = range(0, self.micro_batches, self.group)
        return [
            chunk
            for begin in begins
            for chunk in range(self.chunks)
            for _ in range(begin, min(begin + self.group, self.micro_batches))
        ]

    def most_held(self, stage: int, kept: Sequence[float], again: Sequence[float]) -> float:
        """The most that a stage holds at once.

        `kept` is what a forward pass of each of its chunks leaves until its backward pass, `again` what that backward
        pass makes again on top, for recomputation.
        """
        held = most = 0.0
        for forward, chunk in self.passes(stage):
            if forward:
                held += kept[chunk]
                most = max(most, held)
            else:
                most = max(most, held + again[chunk])
                held -= kept[chunk]
        return most

    @property
    def bubble(self) -> float:
        """Share of an update's time in which a stage waits, chunks taken to be equally long.

        Narayanan et al. 2021, section 2.2: (p - 1) / (v * m) of the time of computing, for p stages of v chunks and m
        micro-batches; here as a share of all time.
        """
        waiting = self.stages - 1
        return waiting / (waiting + self.chunks * self.micro_batches)
