"""Learning rate and weight decay."""

from trainwright.recipes.errors import ConfigError
from trainwright.recipes.validate.plan import Plan


def warmup_ends_before_decay(plan: Plan) -> None:
    """Warm-up is shorter than the decay it precedes."""
    scheduler = plan.config.scheduler
    decay = scheduler.lr_decay_iters or plan.config.train.train_iters
    if scheduler.lr_warmup_iters >= decay:
        raise ConfigError(
            f"scheduler.lr_warmup_iters={scheduler.lr_warmup_iters} has to be below scheduler.lr_decay_iters={decay}; "
            f"add --warmup_iters N"
        )


def wsd_has_its_length(plan: Plan) -> None:
    """The warm-up, stable, decay schedule says how long it decays."""
    scheduler = plan.config.scheduler
    if scheduler.lr_decay_style != "WSD":
        return
    length, decay = scheduler.lr_wsd_decay_iters, scheduler.lr_decay_iters or plan.config.train.train_iters
    if length is None:
        raise ConfigError("scheduler.lr_decay_style=WSD needs scheduler.lr_wsd_decay_iters=N")
    if scheduler.lr_warmup_iters + length > decay:
        raise ConfigError(
            f"scheduler.lr_wsd_decay_iters={length} and lr_warmup_iters={scheduler.lr_warmup_iters} together exceed "
            f"lr_decay_iters={decay}"
        )


def learning_rates_are_ordered(plan: Plan) -> None:
    """Warm-up starts and decay ends at or below the peak."""
    optimizer, scheduler = plan.config.optimizer, plan.config.scheduler
    if optimizer.min_lr > optimizer.lr:
        raise ConfigError(f"optimizer.min_lr={optimizer.min_lr} is above optimizer.lr={optimizer.lr}; add --min_lr X")
    if scheduler.lr_warmup_init > optimizer.lr:
        raise ConfigError(f"scheduler.lr_warmup_init={scheduler.lr_warmup_init} is above optimizer.lr={optimizer.lr}")


def weight_decay_moves_one_way(plan: Plan) -> None:
    """Weight decay is constant or grows, as Megatron Core's scheduler requires."""
    scheduler = plan.config.scheduler
    start, end = scheduler.start_weight_decay or 0.0, scheduler.end_weight_decay or 0.0
    if scheduler.weight_decay_incr_style == "constant" and start != end:
        raise ConfigError(
            f"scheduler.start_weight_decay={start} and end_weight_decay={end} differ: set "
            f"scheduler.weight_decay_incr_style to linear or cosine, or make them equal"
        )
    if end < start:
        raise ConfigError(f"scheduler.end_weight_decay={end} is below start_weight_decay={start}")


RULES = (
    warmup_ends_before_decay,
    wsd_has_its_length,
    learning_rates_are_ordered,
    weight_decay_moves_one_way,
)
