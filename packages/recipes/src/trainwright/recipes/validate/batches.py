"""Batch sizes against the grid of ranks."""

from trainwright.recipes.draft import SCALED
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
            f"{_batch(plan)} is not a multiple of {step} = micro batch {train.micro_batch_size} x "
            f"{plan.data_parallel_size} data parallel ranks; the nearest is {nearest}"
        )


def microbatches_fill_interleaved_pipeline(plan: Plan) -> None:
    """The interleaved schedule walks micro-batches in groups of as many as there are stages."""
    train, stages = plan.config.train, plan.config.model.pipeline_model_parallel_size
    count = train.global_batch_size // (train.micro_batch_size * plan.data_parallel_size)
    if plan.chunks > 1 and count % stages:
        unit = train.micro_batch_size * plan.data_parallel_size * stages
        raise ConfigError(
            f"{_batch(plan)} makes {count} micro-batches, not a multiple of the {stages} stages of an interleaved "
            f"pipeline; use a multiple of {unit}"
        )


def _batch(plan: Plan) -> str:
    """The field and its value, and who made it so where the user did not."""
    field = "train.global_batch_size"
    value = f"{field}={plan.config.train.global_batch_size}"
    if plan.draft.sources[field] != SCALED:
        return value
    return f"{value}, weakly scaled from the recipe's {plan.draft.recipe[field]},"


RULES = (global_batch_divides, microbatches_fill_interleaved_pipeline)
