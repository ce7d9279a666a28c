"""Floating point operations of a training step."""

from __future__ import annotations

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.sizes import padded_vocabulary

PASSES = 3
"""Forward once, backward twice (gradients of inputs and of weights)."""
OPERATIONS_PER_PRODUCT = 2
"""A multiplication and an addition."""


def num_floating_point_operations(config: ConfigContainer, batch_size: int, vocab_size: int | None = None) -> float:
    """Operations of one update over `batch_size` sequences, on all devices together.

    `vocab_size` is the tokenizer's, needed where `config.model.vocab_size` is null.

    Counts matrix products only, as do Narayanan et al. 2021 (arXiv:2104.04473, appendix) and Megatron-LM's
    throughput: projections, the feed-forward part, the output layer over the padded vocabulary, and attention at half
    of the full square, since it is causal. What recomputation repeats is not counted.
    """
    model = config.model
    sequence, vocabulary = model.seq_length, model.vocab_size or vocab_size
    if not (sequence and vocabulary and model.kv_channels and model.num_query_groups and model.ffn_hidden_size):
        raise ValueError("the model's sizes are not resolved")
    hidden, heads, groups, channels = (
        model.hidden_size, model.num_attention_heads, model.num_query_groups, model.kv_channels,
    )  # fmt: skip
    projections = hidden * channels * (heads + 2 * groups) + channels * heads * hidden
    scores_and_context = 2 * heads * channels * sequence / 2
    feed_forward = hidden * model.ffn_hidden_size * (3 if model.gated_linear_unit else 2)
    output = hidden * padded_vocabulary(model, vocabulary)
    products = model.num_layers * (projections + scores_and_context + feed_forward) + output
    return float(PASSES * OPERATIONS_PER_PRODUCT * products * sequence * batch_size)
