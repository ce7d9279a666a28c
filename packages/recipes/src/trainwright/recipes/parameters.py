"""Parameters of a model's parts, on one rank or all together.

Of tensor parallel ranks each has its part of layers that fan out and of weights that fan in; norms, biases of layers
that fan in, routers and the down projections of latents are whole on all.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from trainwright.recipes.blocks import blocks_per_chunk, expert_blocks
from trainwright.recipes.config.model import ModelConfig


@dataclass(frozen=True)
class Count:
    """Parameters: those of experts, which have data parallel ranks of their own, and all others."""

    dense: int = 0
    experts: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.dense + other.dense, self.experts + other.experts)

    @property
    def total(self) -> int:
        """Both together."""
        return self.dense + self.experts


@dataclass(frozen=True)
class Split:
    """Between how many ranks parts of a layer are split."""

    tensor: int = 1
    experts: int = 1
    expert_tensor: int = 1


def split_of(model: ModelConfig) -> Split:
    """What the configuration says."""
    tensor = model.tensor_model_parallel_size
    return Split(tensor, model.expert_model_parallel_size, model.expert_tensor_parallel_size or tensor)


def padded_vocabulary(model: ModelConfig, vocab_size: int) -> int:
    """Rows of the embedding: `vocab_size` rounded up so that every tensor parallel rank holds as many.

    The least common multiple, where Megatron-LM takes the product: a model keeps its shape at another tensor parallel
    size, and so do its checkpoints. The padding itself never takes part in the loss.
    """
    multiple = math.lcm(model.make_vocab_size_divisible_by, model.tensor_model_parallel_size)
    return -(-vocab_size // multiple) * multiple


def norm(model: ModelConfig, width: int) -> int:
    """A layer or root-mean-square norm."""
    return width * (2 if model.normalization == "LayerNorm" else 1)


def attention_matrices(model: ModelConfig) -> tuple[int, int]:
    """Weights of an attention part's matrices: those that are split, and those that are whole on every rank."""
    hidden, heads = model.hidden_size, model.num_attention_heads
    if not model.multi_latent_attention:
        channels = model.kv_channels or 0
        queries = heads * channels
        return hidden * (2 * queries + 2 * (model.num_query_groups or 0) * channels), 0
    content, position, value = model.qk_head_dim or 0, model.qk_pos_emb_head_dim or 0, model.v_head_dim or 0
    latent, query_latent = model.kv_lora_rank or 0, model.q_lora_rank or 0
    up = heads * ((query_latent or hidden) * (content + position) + latent * (content + value))
    return up + heads * value * hidden, hidden * (latent + position + query_latent)


def feed_forward_matrices(model: ModelConfig, width: int) -> int:
    """Weights of a feed-forward part of that width."""
    return model.hidden_size * width * (3 if model.gated_linear_unit else 2)


def _attention(model: ModelConfig, tensor: int) -> int:
    split, whole = attention_matrices(model)
    hidden, heads, channels = model.hidden_size, model.num_attention_heads, model.kv_channels or 0
    whole += norm(model, hidden) + (hidden if model.add_bias_linear else 0)
    if model.softmax_type == "learnable":
        split += heads
    if model.multi_latent_attention:
        if model.qk_layernorm:
            whole += norm(model, model.kv_lora_rank or 0) + norm(model, model.q_lora_rank or 0)
        return split // tensor + whole
    if model.add_bias_linear or model.add_qkv_bias:
        split += (heads + 2 * (model.num_query_groups or 0)) * channels
    if model.qk_layernorm:
        whole += 2 * norm(model, channels)
    return split // tensor + whole


def _feed_forward(model: ModelConfig, width: int, ranks: int) -> int:
    """Without its norm."""
    split, whole = feed_forward_matrices(model, width), 0
    if model.add_bias_linear:
        split += width * (2 if model.gated_linear_unit else 1)
        whole += model.hidden_size
    return split // ranks + whole


def expert(model: ModelConfig, ranks: int = 1) -> int:
    """One expert, on one of the ranks between which it is split."""
    return _feed_forward(model, model.moe_ffn_hidden_size or model.ffn_hidden_size or 0, ranks)


def _experts(model: ModelConfig, split: Split) -> Count:
    """Router, experts and what they share; without the norm before them."""
    experts, shared = model.num_moe_experts or 0, model.moe_shared_expert_intermediate_size
    dense = experts * (model.hidden_size + (1 if model.add_bias_linear else 0))
    if shared is not None:
        dense += _feed_forward(model, shared, split.tensor)
        dense += model.hidden_size if model.moe_shared_expert_gate else 0
    return Count(dense, experts // split.experts * expert(model, split.expert_tensor))


def block(model: ModelConfig, number: int, split: Split) -> Count:
    """One block of the model."""
    dense = Count(_attention(model, split.tensor) + norm(model, model.hidden_size))
    if expert_blocks(model)[number]:
        return dense + _experts(model, split)
    return dense + Count(_feed_forward(model, model.ffn_hidden_size or 0, split.tensor))


def embedding(model: ModelConfig, vocabulary: int, ranks: int) -> int:
    """Of words, and of positions where those are learnt."""
    words = output(model, vocabulary, ranks)
    if model.position_embedding_type == "learned_absolute":
        words += (model.max_position_embeddings or 0) * model.hidden_size
    return words


def output(model: ModelConfig, vocabulary: int, ranks: int) -> int:
    """The matrix from the last hidden states to the vocabulary."""
    return padded_vocabulary(model, vocabulary) * model.hidden_size // ranks


def further_predictions(model: ModelConfig, split: Split) -> Count:
    """Multi-token prediction: for each depth three norms, a matrix and a block like the model's last."""
    if model.mtp_num_layers is None:
        return Count()
    hidden = model.hidden_size
    own = Count(3 * norm(model, hidden) + 2 * hidden * hidden // split.tensor)
    return sum((own + block(model, model.num_layers - 1, split) for _ in range(model.mtp_num_layers)), Count())


def whole_model(model: ModelConfig, vocabulary: int) -> Count:
    """Everything once; tied embeddings too."""
    head = 0 if model.share_embeddings_and_output_weights else output(model, vocabulary, 1)
    ends = Count(embedding(model, vocabulary, 1) + norm(model, model.hidden_size) + head)
    blocks = (block(model, number, Split()) for number in range(model.num_layers))
    return sum(blocks, ends) + further_predictions(model, Split())


def active_parameters(model: ModelConfig, vocabulary: int) -> int:
    """Those that one token passes: of the experts of a block only the chosen ones."""
    idle = (model.num_moe_experts or 0) - model.moe_router_topk
    blocks = sum(expert_blocks(model)) + (model.mtp_num_layers or 0) * expert_blocks(model)[-1]
    return whole_model(model, vocabulary).total - blocks * max(idle, 0) * expert(model)


def stage_parameters(model: ModelConfig, vocabulary: int) -> list[Count]:
    """Of one rank of each pipeline stage, all its model chunks together."""
    split = split_of(model)
    counts = _by_stage(model, lambda number: block(model, number, split))
    counts[-1] += Count(norm(model, model.hidden_size)) + further_predictions(model, split)
    return [count + Count(words) for count, words in zip(counts, stage_words(model, vocabulary), strict=True)]


def stage_matrices(model: ModelConfig) -> list[Count]:
    """Weights of linear layers inside blocks, on one rank of each pipeline stage: what fp8 and fp4 multiply."""
    split = split_of(model)
    counts = _by_stage(model, lambda number: block_matrices(model, number, split))
    joined = Count(2 * model.hidden_size**2 // split.tensor)
    further = (joined + block_matrices(model, model.num_layers - 1, split) for _ in range(model.mtp_num_layers or 0))
    counts[-1] = sum(further, counts[-1])
    return counts


def block_matrices(model: ModelConfig, number: int, split: Split) -> Count:
    """The same of one block. Routers are left out: they are never quantised."""
    shared_out, whole = attention_matrices(model)
    dense = shared_out // split.tensor + whole
    if not expert_blocks(model)[number]:
        return Count(dense + feed_forward_matrices(model, model.ffn_hidden_size or 0) // split.tensor)
    dense += feed_forward_matrices(model, model.moe_shared_expert_intermediate_size or 0) // split.tensor
    one = feed_forward_matrices(model, model.moe_ffn_hidden_size or model.ffn_hidden_size or 0) // split.expert_tensor
    return Count(dense, (model.num_moe_experts or 0) // split.experts * one)


def _by_stage(model: ModelConfig, of_block: Callable[[int], Count]) -> list[Count]:
    """Sums over the blocks of each pipeline stage, all its model chunks together."""
    stages = model.pipeline_model_parallel_size
    counts, number = [Count()] * stages, 0
    for chunk, blocks in enumerate(blocks_per_chunk(model)):
        counts[chunk % stages] = sum(map(of_block, range(number, number + blocks)), counts[chunk % stages])
        number += blocks
    return counts


def stage_words(model: ModelConfig, vocabulary: int) -> list[int]:
    """Embedding and output layer on one rank of each pipeline stage."""
    ranks, stages = model.tensor_model_parallel_size, model.pipeline_model_parallel_size
    words = [0] * stages
    words[0] += embedding(model, vocabulary, ranks)
    # Tied weights are one tensor on one rank, and a copy on the last stage where the model spans several.
    if not model.share_embeddings_and_output_weights or stages > 1:
        words[-1] += output(model, vocabulary, ranks)
    # Further predictions read the embedding too: the last stage has a copy.
    if model.mtp_num_layers is not None and stages > 1:
        words[-1] += embedding(model, vocabulary, ranks)
    return words
