"""The plan of a run: memory, communication and waiting of its ranks, with some of them built to check the count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainwright.runner.errors import RunFailed

if TYPE_CHECKING:
    from trainwright.recipes import ResolvedRun
    from trainwright.recipes.communication import Traffic
    from trainwright.recipes.hardware import Gpu
    from trainwright.recipes.memory import Memory

TIGHT = 0.9
"""Share of a GPU's memory above which libraries and gaps may not have room: NCCL and CUDA take some gigabytes."""


@dataclass(frozen=True)
class Stage:
    """One rank of a pipeline stage."""

    rank: int
    memory: Memory
    traffic: list[Traffic]


@dataclass(frozen=True)
class Plan:
    """What is known of a run before it starts."""

    gpu: Gpu | None
    """That the recipe was written for; null on a CPU."""
    stages: list[Stage]
    """The first, a middle and the last, and the one that needs most. Their ranks were built, unless the recipe is one
    that is known not to run."""
    fullest: Memory
    bubble: float
    """Share of an update's time in which a stage waits for others."""
    taken: tuple[str, ...]
    """Fields that this version does not act on, and that the numbers take as the recipe means them."""
    left_out: tuple[str, ...]
    """Fields that this version does not act on, and that the numbers know nothing of."""

    @property
    def share(self) -> float | None:
        """Of the GPU's memory, what the fullest rank needs."""
        return self.fullest.total / self.gpu.memory if self.gpu is not None else None


TAKEN = (
    "ddp.use_megatron_fsdp",
    "ddp.num_distributed_optimizer_instances",
    "mixed_precision.fp8_param_gather",
    "mixed_precision.fp4_param_gather",
)
LEFT_OUT = (
    "model.cpu_offloading",
    "model.fine_grained_activation_offloading",
    "model.moe_paged_stash",
    "model.moe_expert_rank_capacity_factor",
)


def plan(resolved: ResolvedRun, vocabulary: int) -> Plan:
    """Plan a run of `vocabulary` tokens, before padding.

    Builds ranks of up to four stages and compares their parameters with those that the bytes are computed from. No
    process group may be up. Takes seconds, most of them for PyTorch and Megatron Core.

    Raises:
        RunFailed: they differ, which is a fault of this program.
    """
    from trainwright.recipes.communication import stage_communication
    from trainwright.recipes.hardware import GPUS
    from trainwright.recipes.memory import pipeline_of, stage_memory
    from trainwright.recipes.selection import find

    recipe = find(resolved.recipe)
    gpu = GPUS.get(recipe.hardware) if recipe is not None and resolved.device == "cuda" else None
    two_layouts = gpu is not None and gpu.two_layouts
    memory = stage_memory(resolved, vocabulary, two_layouts=two_layouts)
    traffic = stage_communication(resolved, vocabulary, two_layouts=two_layouts)
    fullest, last = max(memory, key=lambda one: one.total), len(memory) - 1
    stages = []
    for stage in sorted({0, (last + 1) // 2, last, fullest.stage}):
        rank = stage * (resolved.world_size // len(memory))
        if resolved.known_invalid is None:
            check(resolved, rank, vocabulary, memory[stage])
        stages.append(Stage(rank, memory[stage], traffic[stage]))
    return Plan(
        gpu=gpu,
        stages=stages,
        fullest=fullest,
        bubble=pipeline_of(resolved).bubble,
        taken=tuple(path for path in TAKEN if _acts(resolved, path)),
        left_out=tuple(path for path in LEFT_OUT if _acts(resolved, path)),
    )


def check(resolved: ResolvedRun, rank: int, vocabulary: int, memory: Memory) -> None:
    """Compare the parameters of a rank that is built with those that its bytes are computed from.

    Raises:
        RunFailed: they differ.
    """
    from trainwright.runner.plan.meta import build

    built = build(resolved, rank, vocabulary)
    if (built.parameters, built.trainable) != (memory.parameters, memory.trainable):
        raise RunFailed(
            f"rank {rank} has {built.parameters:,} parameters, {built.trainable:,} of them trained, and was planned "
            f"with {memory.parameters:,} and {memory.trainable:,}: a fault of this program"
        )


def _acts(resolved: ResolvedRun, path: str) -> bool:
    """Whether a field has another value than the one with which it does nothing."""
    from trainwright.recipes.carried import off

    section, _, name = path.partition(".")
    value = getattr(getattr(resolved.config, section), name, None)
    return value is not None and value != off(path)
