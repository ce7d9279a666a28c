"""When Python collects garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from trainwright.recipes.config.training import TrainConfig


@contextmanager
def collected_together(train: TrainConfig) -> Iterator[None]:
    """With `train.manual_gc`, Python collects only when `collect` is called: at the same update on every rank.

    Left to itself, each rank would pause at another moment, and all others wait for it.
    """
    if not train.manual_gc or not gc.isenabled():
        yield
        return
    gc.disable()
    gc.collect()
    try:
        yield
    finally:
        gc.enable()


def collect(train: TrainConfig, update: int) -> None:
    """Collect where it is due after this update."""
    if train.manual_gc and update % train.manual_gc_interval == 0:
        gc.collect()
