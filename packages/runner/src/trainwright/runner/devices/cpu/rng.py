"""Parallel random streams on the CPU generator.

Megatron Core keeps one generator state for each kind of region (data, tensor, expert parallel) and swaps the GPU's
generator between them. Here the same states are swapped on torch's CPU generator.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def get_state(device: Any = "cpu", clone: bool = False, graph_safe: bool = False) -> torch.Tensor:
    """The state of the CPU generator, as a copy. CUDA graphs, which need more, do not exist here."""
    return torch.get_rng_state()


def set_state(new_state: torch.Tensor, device: int = -1, graph_safe: bool = False) -> None:
    """Set the state of the CPU generator."""
    torch.set_rng_state(new_state)


def states_tracker(megatron_tracker: type) -> type:
    """Megatron Core's tracker with a `fork` for one generator.

    Its own `fork` warns when the CPU generator moved while the GPU's was forked; here they are the same generator.
    """

    class CpuRNGStatesTracker(megatron_tracker):  # type: ignore[misc]
        """Tracker of named states of the CPU generator."""

        @contextmanager
        def fork(self, name: str = "model-parallel-rng") -> Iterator[None]:
            """Draw from the stream `name` inside the context; the outer stream then goes on where it was.

            A fork inside a fork stores the outer stream first, so that the same stream may be forked twice.
            """
            if name not in self.states_:
                raise KeyError(f"random stream {name!r} is not seeded; known: {', '.join(self.states_) or 'none'}")
            outer_name, outer_state = self._current_state_name, torch.get_rng_state()
            if outer_name != "default-rng":
                self.states_[outer_name] = outer_state
            torch.set_rng_state(self.states_[name])
            self._current_state_name = name
            try:
                yield
            finally:
                self.states_[name] = torch.get_rng_state()
                torch.set_rng_state(outer_state if outer_name == "default-rng" else self.states_[outer_name])
                self._current_state_name = outer_name

    return CpuRNGStatesTracker
