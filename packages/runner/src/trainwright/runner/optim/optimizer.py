"""The optimizer of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainwright.recipes.config import ConfigContainer

if TYPE_CHECKING:
    from megatron.core.distributed import DistributedDataParallel
    from megatron.core.optimizer import MegatronOptimizer, OptimizerConfig


def build_optimizer(config: ConfigContainer, ddp_chunks: Sequence[DistributedDataParallel]) -> MegatronOptimizer:
    """Megatron Core's optimizer over this rank's model chunks.

    Biases and norms get no weight decay. Collective: every rank calls it.
    """
    from megatron.core.optimizer import get_megatron_optimizer

    return get_megatron_optimizer(optimizer_config(config), list(ddp_chunks), use_gloo_process_groups=False)


def optimizer_config(config: ConfigContainer) -> OptimizerConfig:
    """Megatron Core's configuration of the optimizer."""
    from megatron.core.optimizer import OptimizerConfig

    from trainwright.runner.models.transformer_config import params_dtype

    return OptimizerConfig(
        **dict(config.optimizer),
        bf16=config.mixed_precision.bf16,
        fp16=config.mixed_precision.fp16,
        params_dtype=params_dtype(config),
        overlap_param_gather=config.ddp.overlap_param_gather,
    )
