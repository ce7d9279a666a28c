"""What a benchmark gets when it is run, beyond what its recipe says."""

from trainwright.recipes.device_layer import DeviceKind
from trainwright.recipes.draft import DERIVED, Draft
from trainwright.recipes.library import Recipe

PRECISION_AWARE = "optimizer.use_precision_aware_optimizer"


def run_defaults(draft: Draft, recipe: Recipe, device: DeviceKind) -> None:
    """Megatron Bridge's run-time changes of a benchmark, where nobody typed another value.

    In bf16, Adam's is the optimizer with a state in types of its own, which needs a GPU. Fine-tuning with context
    parallelism takes its loss over all tokens of a batch together.
    """
    if not recipe.benchmark:
        return
    adam = draft["optimizer.optimizer"] == "adam" and draft["optimizer.use_distributed_optimizer"]
    if recipe.precision == "bf16" and adam and device == "cuda":
        _put(draft, PRECISION_AWARE)
    if recipe.task != "pretrain" and draft["model.context_parallel_size"] > 1:
        _put(draft, "model.calculate_per_token_loss")


def _put(draft: Draft, path: str) -> None:
    if not draft.typed(path) and not draft[path]:
        draft.put(path, True, DERIVED)
