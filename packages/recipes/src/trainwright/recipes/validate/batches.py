"""Batch sizes against the grid of ranks."""

from trainwright.recipes.errors import ConfigError
from trainwright.recipes.validate.plan import Plan


def global_batch_divides(plan: Plan) -> None:
    """Every data parallel rank runs the same number of whole micro-batches, at least one."""
    train = plan.config.train
    step = train.micro_batch_size * plan.data_parallel_size
    if train.global_batch_size % step:
        below = train.global_batch_size // step * step
        nearest = f"{below} or {below + step}" if below else str(step)
        raise ConfigError(
            f"train.global_batch_size={train.global_batch_size} is not a multiple of {step} = micro batch "
            f"{train.micro_batch_size} x {plan.data_parallel_size} data parallel ranks; the nearest is {nearest}"
        )


def microbatches_fill_interleaved_pipeline(plan: Plan) -> None:
    """The interleaved schedule walks micro-batches in groups of as many as there are stages."""
    train, stages = plan.config.train, plan.config.model.pipeline_model_parallel_size
    count = train.global_batch_size // (train.micro_batch_size * plan.data_parallel_size)
    if plan.chunks > 1 and count % stages:
        unit = train.micro_batch_size * plan.data_parallel_size * stages
        raise ConfigError(
            f"train.global_batch_size={train.global_batch_size} makes {count} micro-batches, not a multiple of the "
            f"{stages} stages of an interleaved pipeline; use a multiple of {unit}"
        )


RULES = (global_batch_divides, microbatches_fill_interleaved_pipeline)
