"""What was typed about overlapping is what happens."""

from trainwright.recipes.draft import show
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.overlap import OF_DDP
from trainwright.recipes.validate.plan import Plan


def what_was_typed_is_followed(plan: Plan) -> None:
    """`comm_overlap` decides for `ddp`, unless the two were typed against each other or the optimizer is not split."""
    for name in OF_DDP:
        path, followed = f"comm_overlap.{name}", getattr(plan.config.ddp, name)
        said = plan.draft[path]
        if plan.draft.typed(path) and said is not None and said != followed and plan.data_parallel_size > 1:
            raise ConfigError(
                f"{path}={show(said)} does not go with ddp.{name}={show(followed)}; it needs the distributed optimizer"
                f"{', and ddp.overlap_grad_reduce=true' if name == 'overlap_param_gather' else ''}"
            )


RULES = (what_was_typed_is_followed,)
