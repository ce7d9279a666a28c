"""Profiler windows."""

from trainwright.recipes.errors import ConfigError
from trainwright.recipes.validate.plan import Plan


def window_is_within_the_run(plan: Plan) -> None:
    """The profiled updates and ranks exist."""
    profiling, updates = plan.config.profiling, plan.config.train.train_iters
    if not profiling.use_pytorch_profiler:
        return
    start, end = profiling.profile_step_start, profiling.profile_step_end
    if end <= start:
        raise ConfigError(f"profiling.profile_step_end={end} has to be above profile_step_start={start}")
    if start >= updates:
        raise ConfigError(f"profiling.profile_step_start={start} is not within the {updates} updates of the run")
    for rank in profiling.profile_ranks:
        if not 0 <= rank < plan.world_size:
            raise ConfigError(
                f"profiling.profile_ranks={profiling.profile_ranks}: ranks are 0 to {plan.world_size - 1}"
            )


RULES = (window_is_within_the_run,)
