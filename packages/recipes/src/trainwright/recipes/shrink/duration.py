"""A few updates, with everything in them that comes in a long run: warm-up, validation, a checkpoint on the way."""

from trainwright.recipes.shrink.smaller import Smaller

UPDATES, SAVED = 5, 3
"""Updates, and the one whose checkpoint is loaded again: two follow it, the second of which shows the optimizer."""


def duration(smaller: Smaller) -> None:
    """Five updates, and everything that comes at intervals comes."""
    put = smaller.put
    put("train.train_iters", UPDATES)
    put("train.exit_duration_in_mins", None)
    smaller.fewer("scheduler.lr_warmup_iters", 1)
    put("scheduler.lr_decay_iters", UPDATES)
    smaller.fewer("scheduler.lr_wsd_decay_iters", 1)
    put("logger.log_interval", 1)
    put("checkpoint.save_interval", SAVED)
    put("checkpoint.most_recent_k", -1)
    put("profiling.use_pytorch_profiler", False)
    validates = smaller["validation.eval_interval"] is not None and smaller["validation.eval_iters"] > 0
    if validates:
        put("validation.eval_interval", 2)
        put("validation.eval_iters", 1)
    smaller.say(
        "updates",
        smaller.change("train.train_iters"),
        smaller.change("scheduler.lr_warmup_iters", of="warm-up"),
        smaller.change("validation.eval_interval", "validation.eval_iters", of="validation every/for")
        if validates
        else "",
    )
