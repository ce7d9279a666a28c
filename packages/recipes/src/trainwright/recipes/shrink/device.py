"""What a CPU has no kernel for is off, and said."""

from trainwright.recipes.device_layer import apply_device
from trainwright.recipes.draft import show
from trainwright.recipes.shrink.smaller import Smaller

GROUPS = {
    "mixed_precision.": "16-bit, 8-bit and 4-bit arithmetic: a rehearsal computes in 32 bits",
    "optimizer.optimizer": "the optimizer of 16-bit weights: muon trains the same",
    "optimizer.use_precision_aware_optimizer": "optimizer state in other types",
    "model.moe_token_dispatcher_type": "the dispatcher of tokens for GPUs",
    "model.moe_shared_expert_overlap": "overlap of communication with computation",
    "comm_overlap": "overlap of communication with computation",
    "model.recompute_": "recomputation of modules that only a GPU has",
    "model.cpu_offloading": "activations and optimizer state that leave the GPU",
    "model.fine_grained_activation_offloading": "activations and optimizer state that leave the GPU",
    "model.moe_paged_stash": "activations and optimizer state that leave the GPU",
    "optimizer.optimizer_cpu_offload": "activations and optimizer state that leave the GPU",
    "ddp.use_megatron_fsdp": "Megatron FSDP: every rank keeps its weights whole",
    "dataset.num_workers": "loader processes",
}
"""Beginning of a field's path -> what is not checked where the device changes it."""

ALWAYS = (
    "kernels of a GPU: Transformer Engine, fusions, CUDA graphs; NCCL",
    "memory, speed, several nodes, and whatever only happens at the full size",
)
"""What no rehearsal checks."""


def device(smaller: Smaller) -> None:
    """The CPU's values, over the recipe's and the user's: those of the user are named."""
    if smaller.full.device == "cuda":
        before = dict(smaller.draft.values)
        typed = [path for path in before if smaller.draft.typed(path)]
        apply_device(smaller.draft, "cpu")
        changed = {path: value for path, value in before.items() if smaller[path] != value}
        smaller.unchecked += [name for start, name in GROUPS.items() if any(path.startswith(start) for path in changed)]
        smaller.unchecked += [f"your {path}={show(changed[path])}" for path in typed if path in changed]
    smaller.unchecked += ALWAYS
