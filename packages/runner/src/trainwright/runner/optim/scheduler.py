"""Learning rate and weight decay over the updates of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.recipes.config import ConfigContainer

if TYPE_CHECKING:
    from megatron.core.optimizer import MegatronOptimizer
    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler


def build_scheduler(config: ConfigContainer, optimizer: MegatronOptimizer) -> OptimizerParamScheduler:
    """Megatron Core's scheduler, counting in sequences: step it by the global batch size after each update.

    Counting in sequences keeps the schedule when a run is resumed with another batch size.
    """
    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

    scheduler, batch = config.scheduler, config.train.global_batch_size
    decay = config.optimizer.weight_decay
    return OptimizerParamScheduler(
        optimizer,
        init_lr=scheduler.lr_warmup_init,
        max_lr=config.optimizer.lr,
        min_lr=config.optimizer.min_lr,
        lr_warmup_steps=scheduler.lr_warmup_iters * batch,
        lr_decay_steps=(scheduler.lr_decay_iters or config.train.train_iters) * batch,
        lr_decay_style=scheduler.lr_decay_style,
        start_wd=decay if scheduler.start_weight_decay is None else scheduler.start_weight_decay,
        end_wd=decay if scheduler.end_weight_decay is None else scheduler.end_weight_decay,
        wd_incr_steps=config.train.train_iters * batch,
        wd_incr_style=scheduler.weight_decay_incr_style,
        use_checkpoint_opt_param_scheduler=True,
        wsd_decay_steps=None if scheduler.lr_wsd_decay_iters is None else scheduler.lr_wsd_decay_iters * batch,
        lr_wsd_decay_style=scheduler.lr_wsd_decay_style,
    )
