"""Models: Megatron Core's `HybridModel`, built from a run's configuration."""

from trainwright.runner.models.builder import build_model
from trainwright.runner.models.transformer_config import transformer_config

__all__ = ["build_model", "transformer_config"]
