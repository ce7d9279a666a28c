"""The optimizer of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainwright.recipes.config import ConfigContainer

if TYPE_CHECKING:
    import torch
    from megatron.core.distributed import DistributedDataParallel
    from megatron.core.optimizer import MegatronOptimizer, OptimizerConfig


def build_optimizer(config: ConfigContainer, ddp_chunks: Sequence[DistributedDataParallel]) -> MegatronOptimizer:
    """Megatron Core's optimizer over this rank's model chunks.

    Biases and norms get no weight decay. Collective: every rank calls it.
    """
    from megatron.core.optimizer import get_megatron_optimizer

    if config.optimizer.optimizer in MUON:
        mark_positions(ddp_chunks)
    return get_megatron_optimizer(optimizer_config(config), list(ddp_chunks), use_gloo_process_groups=False)


NOT_ACTED_ON = {"overlap_param_gather_with_optimizer_step": False}
"""Fields that a benchmark recipe brings and this version only records."""

MUON = ("muon", "dist_muon")


def mark_positions(chunks: Sequence[torch.nn.Module]) -> None:
    """Leave a learnt table of positions to Adam, as every embedding. Megatron Core marks only that of words."""
    for chunk in chunks:
        for name, parameter in chunk.named_parameters():
            if "position_embeddings" in name:
                parameter.is_embedding_or_output_parameter = True  # type: ignore[attr-defined]


def optimizer_config(config: ConfigContainer) -> OptimizerConfig:
    """Megatron Core's configuration of the optimizer."""
    import torch
    from megatron.core.optimizer import OptimizerConfig

    from trainwright.runner.models.transformer_config import params_dtype

    types = {name: getattr(torch, value) for name, value in config.optimizer if name.endswith("_dtype")}
    return OptimizerConfig(
        # Its own name for what shares Muon's matrices out between data parallel ranks; `dist_muon` is the older one.
        **dict(config.optimizer)
        | {"optimizer": config.optimizer.optimizer.removeprefix("dist_")}
        | types
        | NOT_ACTED_ON,
        use_layer_wise_distributed_optimizer=config.optimizer.optimizer == "dist_muon",
        bf16=config.mixed_precision.bf16,
        fp16=config.mixed_precision.fp16,
        params_dtype=params_dtype(config),
        fp8_recipe=config.mixed_precision.fp8_recipe,
        overlap_param_gather=config.ddp.overlap_param_gather,
    )
