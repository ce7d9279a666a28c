"""Every pretraining recipe's model at its full size, as the ranks that it was written for would build it.

Weights are on PyTorch's `meta` device, which stores nothing, and the other ranks are PyTorch's fake process group, so a
rank of 1024 is built in a second. What it computes, small models show elsewhere.
"""

from typing import Any

import pytest

from trainwright.recipes import ConfigContainer, ResolvedRun, Selection, resolve
from trainwright.recipes.library import RECIPES
from trainwright.recipes.parameters import stage_parameters
from trainwright.runner.testing import run_ranks

VOCABULARY = 163_840
NAMES = [recipe.name for recipe in RECIPES if recipe.task == "pretrain"]


def built(names: list[str]) -> dict[str, tuple[list[int], int]]:
    """For each recipe: parameters on a rank of its first, middle and last stage, and on the fullest as estimated."""
    from trainwright.runner.devices import use_device

    use_device("cpu")
    from trainwright.runner.models import builder

    as_configured = builder.transformer_config

    def without_memory(config: ConfigContainer) -> Any:
        megatron_config = as_configured(config)
        # Layers then ask PyTorch for its default device, and write nothing into their weights.
        megatron_config.use_cpu_initialization = True
        megatron_config.perform_initialization = False
        return megatron_config

    builder.transformer_config = without_memory
    counts = {}
    for name in names:
        run = resolve(Selection(recipe=name), [f"model.vocab_size={VOCABULARY}"], world_size=None, device="cpu")
        fullest = max(stage.total for stage in stage_parameters(run.config.model, VOCABULARY))
        ranks = sorted({0, run.world_size // 2, run.world_size - 1})
        counts[name] = ([_parameters(run, rank) for rank in ranks], fullest)
    return counts


def _parameters(run: ResolvedRun, rank: int) -> int:
    """Parameters on one rank of the run."""
    import torch
    from megatron.core import parallel_state, tensor_parallel
    from torch.testing._internal.distributed.fake_pg import FakeStore

    from trainwright.runner.models import build_model

    model = run.config.model
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=run.world_size)
    try:
        parallel_state.initialize_model_parallel(
            model.tensor_model_parallel_size,
            model.pipeline_model_parallel_size,
            model.virtual_pipeline_model_parallel_size,
            context_parallel_size=model.context_parallel_size,
            expert_model_parallel_size=model.expert_model_parallel_size,
            expert_tensor_parallel_size=model.expert_tensor_parallel_size,
            create_gloo_process_groups=False,
        )
        tensor_parallel.model_parallel_cuda_manual_seed(1)
        with torch.device("meta"):
            chunks = build_model(run.config, vocab_size=VOCABULARY)
        return sum(parameter.numel() for chunk in chunks for parameter in chunk.parameters())
    finally:
        parallel_state.destroy_model_parallel()
        torch.distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.distributed
def test_every_recipe_builds_at_its_size_with_as_many_parameters_as_estimated() -> None:
    """On the fullest rank exactly; all recipes in one process, which is most of the time."""
    (counts,) = run_ranks(built, 1, NAMES, timeout=500)
    assert set(counts) == set(NAMES)
    assert {name: numbers for name, (numbers, fullest) in counts.items() if max(numbers) != fullest} == {}
