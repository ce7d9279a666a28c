"""What a CPU has no kernel for is off, and said."""

from trainwright.recipes.device_layer import apply_device
from trainwright.recipes.draft import show
from trainwright.recipes.shrink.smaller import Smaller

GROUPS = {
    "mixed_precision.": "16-bit and 8-bit arithmetic (a rehearsal computes in 32 bits)",
    "optimizer.use_precision_aware_optimizer": "optimizer state in other types",
    "dist.": "NCCL",
    "model.moe_token_dispatcher_type": "the dispatcher for GPUs",
    "model.moe_flex_dispatcher_backend": "the dispatcher for GPUs",
    "model.moe_shared_expert_overlap": "overlap of communication with computation",
    "dataset.num_workers": "loader processes",
    "comm_overlap.": "overlap of communication with computation",
    "model.": "fused kernels",
    "optimizer.": "the optimizer of 16-bit weights",
    "ddp.": "averaging in collectives",
}
"""Beginning of a field's path -> what is not checked where the device changes it; the first that fits."""

ALWAYS = (
    "memory, speed, several nodes, and anything that only happens at the full size",
    "kernels of a GPU, CUDA graphs, Transformer Engine",
)
"""What no rehearsal checks."""


def device(smaller: Smaller) -> None:
    """The CPU's values, over the recipe's and the user's: those of the user are named."""
    before = dict(smaller.draft.values)
    if smaller.full.device == "cuda":
        typed = {path for path in before if smaller.draft.typed(path)}
        apply_device(smaller.draft, "cpu")
        changed = {path: value for path, value in before.items() if smaller[path] != value}
        groups: dict[str, list[str]] = {}
        for path, value in changed.items():
            name = next((name for start, name in GROUPS.items() if path.startswith(start)), path)
            groups.setdefault(name, []).extend([f"{path}={show(value)}, which you set"] if path in typed else [])
        smaller.unchecked += [
            f"{name} ({', '.join(set_by_user)})" if set_by_user else name for name, set_by_user in groups.items()
        ]
    smaller.unchecked += ALWAYS
