"""Blocks to the layer pattern of `HybridModel`.

Everywhere else a model has blocks: attention and feed-forward together. `HybridModel` counts them as two layers.
"""

from __future__ import annotations

from trainwright.recipes.config.model import ModelConfig

LAYERS_PER_BLOCK = 2
DENSE_BLOCK = "*-"
"""Attention, then a dense feed-forward part."""


def blocks_per_stage(model: ModelConfig) -> list[int]:
    """Blocks of each pipeline stage, virtual stages included, in the order in which tokens pass them.

    Raises `ValueError` when the blocks do not divide evenly.
    """
    stages = model.pipeline_model_parallel_size * (model.virtual_pipeline_model_parallel_size or 1)
    if model.num_layers % stages:
        raise ValueError(
            f"model.num_layers = {model.num_layers} does not divide over {stages} pipeline stages "
            f"(pipeline_model_parallel_size {model.pipeline_model_parallel_size}, "
            f"virtual_pipeline_model_parallel_size {model.virtual_pipeline_model_parallel_size or 1})"
        )
    return [model.num_layers // stages] * stages


def layer_pattern(model: ModelConfig) -> str:
    """The pattern of the whole model, `|` between pipeline stages: 4 blocks on 2 stages are `*-*-|*-*-`."""
    return "|".join(DENSE_BLOCK * blocks for blocks in blocks_per_stage(model))
