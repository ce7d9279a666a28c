"""One rank's model of a run at its full size, without memory and without the other ranks.

Weights are on PyTorch's `meta` device, which stores nothing, and the other ranks are PyTorch's fake process group.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainwright.recipes import ConfigContainer, ResolvedRun


@dataclass(frozen=True)
class Built:
    """Parameters of one rank's model chunks."""

    parameters: int
    trainable: int
    """Those that take gradients."""


def build(resolved: ResolvedRun, rank: int, vocabulary: int) -> Built:
    """Build the share of `rank` and count it. `vocabulary` counts tokens before padding.

    Chooses the CPU for this process: layers are this project's own, whose parameters are those of Transformer Engine's.
    No process group may be up.
    """
    from trainwright.runner.devices import use_device

    use_device("cpu")
    import torch

    from trainwright.runner.models import build_model

    config = _for_a_cpu(resolved.config)
    with warnings.catch_warnings(), _lonely(resolved, rank), torch.device("meta"):
        warnings.simplefilter("ignore", UserWarning)  # of Megatron Core, about settings that do not matter here
        chunks = build_model(config, vocab_size=vocabulary, initialize=False)
        if config.peft is not None:
            from trainwright.runner.adapters.attach import attach

            attach(chunks, config, config.peft, alone=True)
        sizes = [(one.numel(), one.requires_grad) for chunk in chunks for one in chunk.parameters()]
    return Built(sum(size for size, _ in sizes), sum(size for size, trained in sizes if trained))


def _for_a_cpu(config: ConfigContainer) -> ConfigContainer:
    """With what a CPU has no kernels for switched off; nothing of it changes which parameters there are."""
    from trainwright.recipes.build import build_config
    from trainwright.recipes.device_layer import apply_device
    from trainwright.recipes.draft import DEVICE, Draft

    draft = Draft(config)
    apply_device(draft, "cpu")
    draft.put("model.recompute_granularity", None, DEVICE)
    return build_config(draft.tree())


@contextmanager
def _lonely(resolved: ResolvedRun, rank: int) -> Iterator[None]:
    """Process groups in which this process is `rank`, and nobody else is there."""
    import torch
    from megatron.core import parallel_state, tensor_parallel
    from torch.testing._internal.distributed.fake_pg import FakeStore

    from trainwright.runner.distributed import stop

    model = resolved.config.model
    virtual: Any = model.virtual_pipeline_model_parallel_size
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=resolved.world_size)
    try:
        parallel_state.initialize_model_parallel(
            model.tensor_model_parallel_size,
            model.pipeline_model_parallel_size,
            virtual if virtual is not None and virtual > 1 else None,
            context_parallel_size=model.context_parallel_size,
            expert_model_parallel_size=model.expert_model_parallel_size,
            expert_tensor_parallel_size=model.expert_tensor_parallel_size,
            create_gloo_process_groups=False,
        )
        tensor_parallel.model_parallel_cuda_manual_seed(1)
        yield
    finally:
        stop()
