"""Floating point operations of a training step."""

from __future__ import annotations

from dataclasses import dataclass

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.sizes import padded_vocabulary

PASSES = 3
"""Forward once, backward twice (gradients of inputs and of weights)."""
OPERATIONS_PER_PRODUCT = 2
"""A multiplication and an addition."""


@dataclass(frozen=True)
class Operations:
    """What an update costs, over all devices together."""

    per_position: float
    """Of every position of every row, padding included."""
    per_pair: float
    """For each square of the length of a sequence: attention pairs the positions of one sequence and no others."""

    def of(self, positions: float, squares: float) -> float:
        """Operations for so many positions, in sequences the squares of whose lengths sum up to `squares`."""
        return self.per_position * positions + self.per_pair * squares


def floating_point_operations(config: ConfigContainer, vocab_size: int | None = None) -> Operations:
    """Operations of an update. `vocab_size` is the tokenizer's, needed where `config.model.vocab_size` is null.

    Counts matrix products only, as do Narayanan et al. 2021 (arXiv:2104.04473, appendix) and Megatron-LM's
    throughput: projections, the feed-forward part, the output layer over the padded vocabulary, and attention at half
    of the full square of each sequence, since it is causal. What recomputation repeats is not counted. With H hidden,
    A heads and G groups of C channels, F the feed-forward part's width, 3 matrices of it where it is gated and else 2,
    L blocks and V tokens, an update over sequences of s_i positions takes

        6 * ((L * (H*C*(A + 2*G) + C*A*H + (2 or 3)*H*F) + H*V) * sum(s_i) + L * A*C * sum(s_i^2)).
    """
    model = config.model
    vocabulary = model.vocab_size or vocab_size
    if not (vocabulary and model.kv_channels and model.num_query_groups and model.ffn_hidden_size):
        raise ValueError("the model's sizes are not resolved")
    hidden, heads, groups, channels = (
        model.hidden_size, model.num_attention_heads, model.num_query_groups, model.kv_channels,
    )  # fmt: skip
    projections = hidden * channels * (heads + 2 * groups) + channels * heads * hidden
    feed_forward = hidden * model.ffn_hidden_size * (3 if model.gated_linear_unit else 2)
    output = hidden * padded_vocabulary(model, vocabulary)
    scores_and_context = 2 * heads * channels / 2
    factor = PASSES * OPERATIONS_PER_PRODUCT
    return Operations(
        per_position=factor * (model.num_layers * (projections + feed_forward) + output),
        per_pair=factor * model.num_layers * scores_and_context,
    )
