"""How much of an adapter run is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainwright.recipes.adapters import adapted, trainable_parameters
from trainwright.recipes.parameters import whole_model

if TYPE_CHECKING:
    from trainwright.recipes.config.model import ModelConfig
    from trainwright.recipes.config.peft import PeftConfig
    from trainwright.runner.step import Trainer


@dataclass(frozen=True)
class Counts:
    """Parameters over all ranks, adapters among the total; tied embeddings and the vocabulary's padding count once."""

    scheme: str
    dim: int
    layers: int
    """Linear layers with an adapter, each expert one."""
    trainable: int
    total: int

    @property
    def percent(self) -> float:
        """Of all parameters, those that are trained."""
        return 100 * self.trainable / self.total

    def line(self) -> str:
        """For a person."""
        return (
            f"training {self.trainable:,} of {self.total:,} parameters ({self.percent:.4g} %): {self.scheme} of rank "
            f"{self.dim} in {self.layers:,} layers"
        )

    def record(self) -> dict[str, Any]:
        """For the session's entry in `run.json`."""
        return {
            "scheme": self.scheme,
            "dim": self.dim,
            "layers": self.layers,
            "trainable_parameters": self.trainable,
            "parameters": self.total,
            "percent": self.percent,
        }


def counted(trainer: Trainer) -> Counts | None:
    """Of this run; null where it trains the weights themselves."""
    from megatron.core.utils import unwrap_model

    config = trainer.resolved.config
    return count(config.model, config.peft, unwrap_model(trainer.chunks)[0].tokens) if config.peft else None


def count(model: ModelConfig, peft: PeftConfig, vocab_size: int) -> Counts:
    """By arithmetic. Raises ConfigError for patterns that match nothing."""
    trainable = trainable_parameters(model, peft)
    layers = sum(one.linear.experts or 1 for one in adapted(model, peft))
    return Counts(peft.scheme, peft.dim, layers, trainable, whole_model(model, vocab_size).total + trainable)
