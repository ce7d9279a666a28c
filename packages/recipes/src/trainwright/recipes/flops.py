"""Floating point operations of a training step."""

from dataclasses import dataclass

from trainwright.recipes.adapters import adapted
from trainwright.recipes.blocks import expert_blocks
from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.config.peft import PeftConfig
from trainwright.recipes.parameters import attention_matrices, feed_forward_matrices, output

PASSES = 3
"""Forward once, backward twice (gradients of inputs and of weights)."""
PASSES_OF_FROZEN = 2
"""Forward, and the gradient of inputs."""
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
    throughput: projections, the feed-forward part (of experts the chosen ones, the shared ones and the router), the
    output layer over the padded vocabulary, and attention at half of the full square of each sequence, since it is
    causal. What recomputation repeats is not counted, nor is what a sliding window or a sink changes. With H hidden,
    A heads and G groups of C channels, F the feed-forward part's width, 3 matrices of it where it is gated and else 2,
    L blocks and V tokens, an update of a dense model over sequences of s_i positions takes

        6 * ((L * (H*C*(A + 2*G) + C*A*H + (2 or 3)*H*F) + H*V) * sum(s_i) + L * A*C * sum(s_i^2)).

    In multi-latent attention A*C becomes half of the widths of a head's query and value together. Each further token
    that is predicted costs a block, a matrix of 2*H*H and the output layer once more.

    With adapters (`config.peft`) no gradient of a frozen weight is computed: in the first term 4 stands for 6, forward
    and the gradient of inputs, which goes down to the embedding. Attention has no weights and keeps its 6. An adapter
    of rank r beside C columns and R rows adds 6 * r * (p*C + R) for each position that meets it, with p matrices A
    where it has p parts; of experts, those that are chosen. The lengths of DoRA's rows, which cost as much for one
    position as for a thousand, are not counted.
    """
    model = config.model
    vocabulary = model.vocab_size or vocab_size
    heads_are_known = model.multi_latent_attention or (model.kv_channels and model.num_query_groups)
    if not (vocabulary and heads_are_known and model.ffn_hidden_size):
        raise ValueError("the model's sizes are not resolved")
    further = model.mtp_num_layers or 0
    kinds = expert_blocks(model)
    kinds += kinds[-1:] * further
    feed_forward = sum(
        _experts(model) if kind else feed_forward_matrices(model, model.ffn_hidden_size) for kind in kinds
    )
    projections = len(kinds) * sum(attention_matrices(model))
    ends = (1 + further) * output(model, vocabulary, 1) + further * 2 * model.hidden_size**2
    factor = PASSES * OPERATIONS_PER_PRODUCT
    weights = projections + feed_forward + ends
    if config.peft is None:
        per_position = factor * weights
    else:
        frozen = PASSES_OF_FROZEN * OPERATIONS_PER_PRODUCT
        per_position = frozen * weights + factor * _adapters(model, config.peft)
    return Operations(
        per_position=per_position,
        per_pair=factor * len(kinds) * _scores_and_context(model) / 2,
    )


def _adapters(model: ModelConfig, peft: PeftConfig) -> int:
    """Weights of adapters' matrices that a token meets."""
    total = 0
    for one in adapted(model, peft):
        met = 1 if one.linear.experts is None else model.moe_router_topk
        total += met * peft.dim * (len(one.parts) * one.linear.columns + sum(part.rows for part in one.parts))
    return total


def _experts(model: ModelConfig) -> int:
    """Weights that a token meets in a mixture of experts."""
    width = model.moe_ffn_hidden_size or model.ffn_hidden_size or 0
    shared = feed_forward_matrices(model, model.moe_shared_expert_intermediate_size or 0)
    router = model.hidden_size * (model.num_moe_experts or 0)
    return model.moe_router_topk * feed_forward_matrices(model, width) + shared + router


def _scores_and_context(model: ModelConfig) -> int:
    """Products for each pair of positions: query with key, and weight with value."""
    if model.multi_latent_attention:
        channels = (model.qk_head_dim or 0) + (model.qk_pos_emb_head_dim or 0) + (model.v_head_dim or 0)
    else:
        channels = 2 * (model.kv_channels or 0)
    return model.num_attention_heads * channels
