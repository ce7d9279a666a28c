"""Writing a checkpoint: at once, or in the background while training goes on."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from trainwright.runner.checkpoints.content import CONTENT, sharded_state
from trainwright.runner.distributed import rank_zero_first
from trainwright.runner.errors import RunFailed
from trainwright.runner.failures import failing_as

if TYPE_CHECKING:
    from trainwright.runner.checkpoints.folder import CheckpointFolder
    from trainwright.runner.distributed import Place
    from trainwright.runner.progress import Progress
    from trainwright.runner.step import Trainer


class Saver:
    """Writes the checkpoints of one session.

    With `checkpoint.async_save` a save ends some updates after it was asked for.
    """

    def __init__(self, trainer: Trainer, folder: CheckpointFolder, here: Place) -> None:
        self.trainer, self.folder, self.here = trainer, folder, here
        self.last_step: int | None = None
        self._queue: Any = None
        logging.getLogger("megatron.core.dist_checkpointing.strategies.torch").addFilter(_is_not_about_strategy)

    def save(self, progress: Progress, written: Callable[[Path, float], None]) -> None:
        """Save the state after `progress.step` updates; with `checkpoint.async_save` only the copying happens here.

        `written(path, seconds)` is called on every rank when all is on the disk, and before the checkpoint gets its
        name and becomes the latest: a run that is complete by its checkpoints is then complete in its log as well.

        Raises:
            RunFailed: something cannot be written, of this save or of the background save before it.
        """
        self.finish()
        started, step = time.perf_counter(), progress.step
        self.last_step = step

        def commit() -> None:
            written(self.folder.complete(step), time.perf_counter() - started)
            rank_zero_first(lambda: self._commit(step), self.here)

        with self._failing():
            rank_zero_first(lambda: self._begin(step), self.here)
            request = self._write(progress)
            if request is None:
                commit()
            else:
                request.add_finalize_fn(commit)
                self._calls().schedule_async_request(request)

    def poll(self) -> None:
        """Complete a background save that is done by now. Raises `RunFailed` as `save` does."""
        if self._queue is not None and self._queue.get_num_unfinalized_calls():
            with self._failing():
                self._queue.maybe_finalize_async_calls(blocking=False)

    def finish(self) -> None:
        """Wait until no save is under way. Raises `RunFailed` as `save` does."""
        if self._queue is not None:
            with self._failing():
                self._queue.maybe_finalize_async_calls(blocking=True)

    def close(self) -> None:
        """Finish, and end the background process."""
        if self._queue is not None:
            self.finish()
            self._queue.close()
            self._queue = None

    def abandon(self) -> None:
        """End the background process where this rank alone has failed: what others wait for will not come."""
        if self._queue is not None:
            self._queue.close(abort=True)
            self._queue = None

    def _failing(self) -> AbstractContextManager[None]:
        return failing_as(f"the checkpoint of step {self.last_step} cannot be written below {self.folder.path}")

    def _begin(self, step: int) -> None:
        run_dir = Path(str(self.trainer.resolved.config.logger.run_dir))
        if not run_dir.is_dir():
            # Its files, still open, would take every further record and be gone with this process.
            raise RunFailed(f"the run directory {run_dir} is gone")
        with self._failing():
            self.folder.begin(step)

    def _write(self, progress: Progress) -> Any:
        """Write, or return what is left to do in the background."""
        from megatron.core import dist_checkpointing

        config = self.trainer.resolved.config.checkpoint
        gather_weights(self.trainer)
        state = sharded_state(self.trainer, progress, loading=False, optimizer=config.save_optim, rng=config.save_rng)
        self.trainer.device.prepare_save(asynchronous=config.async_save)
        return dist_checkpointing.save(
            state,
            str(self.folder.partial(progress.step)),
            sharded_strategy=self._strategy(),
            async_sharded_save=config.async_save,
            content_metadata=dict(CONTENT),
            async_strategy="mcore",
        )

    def _commit(self, step: int) -> None:
        with self._failing():
            self.folder.commit(step)
            self.folder.prune(self.trainer.resolved.config.checkpoint.most_recent_k)

    def _calls(self) -> Any:
        if self._queue is None:
            from megatron.core.dist_checkpointing.strategies.async_utils import AsyncCallsQueue

            # The persistent worker hangs where there is no GPU, and saves nothing worth having here.
            self._queue = AsyncCallsQueue(persistent=False)
        return self._queue

    def _strategy(self) -> Any:
        from megatron.core import parallel_state
        from megatron.core.dist_checkpointing.serialization import get_default_save_sharded_strategy
        from megatron.core.dist_checkpointing.strategies.fully_parallel import FullyParallelSaveStrategyWrapper

        strategy = get_default_save_sharded_strategy("torch_dist")
        if self.trainer.resolved.config.checkpoint.fully_parallel_save and torch.distributed.get_world_size() > 1:
            return FullyParallelSaveStrategyWrapper(
                strategy, parallel_state.get_data_parallel_group(with_context_parallel=True)
            )
        return strategy


def gather_weights(trainer: Trainer) -> None:
    """Bring the weights of this rank up to date, which `ddp.overlap_param_gather` leaves to the next forward pass."""
    if trainer.resolved.config.ddp.overlap_param_gather:
        with torch.no_grad():
            for chunk in trainer.chunks:
                chunk.start_param_sync(force_sync=True)


def _is_not_about_strategy(record: logging.LogRecord) -> bool:
    """Every save advises a strategy whose package (nvidia-resiliency-ext) is not a dependency of this one."""
    return "MCore's async save is deprecated" not in record.getMessage()
