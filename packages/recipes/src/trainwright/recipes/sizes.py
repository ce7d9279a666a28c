"""How large a run is: parameters, memory of a rank, samples and tokens."""

import math
from dataclasses import dataclass

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.pipeline import ResolvedRun


@dataclass(frozen=True)
class Estimate:
    """Sizes that follow from the configuration alone. Bytes are of the fullest rank; activations are not included."""

    parameters: int
    """Of the whole model; tied embeddings count once."""
    parameters_per_rank: int
    """On the fullest rank."""
    weight_bytes: int
    gradient_bytes: int
    """The buffer in which gradients are summed and reduced."""
    optimizer_bytes: int
    """Moments, and 32-bit master weights where the model trains in 16 bits."""
    samples: int
    """Sequences of the whole run, or packed rows."""
    tokens: int
    """Of full sequences and rows; rows of text are shorter, by how much only their data tells."""

    @property
    def bytes_per_rank(self) -> int:
        """Weights, gradients and optimizer together; activations, buffers and the framework come on top."""
        return self.weight_bytes + self.gradient_bytes + self.optimizer_bytes


def estimate(resolved: ResolvedRun, *, vocab_size: int | None = None) -> Estimate:
    """Sizes of a run. `vocab_size` is the tokenizer's, needed where `model.vocab_size` is null.

    Raises ConfigError where the vocabulary is unknown.
    """
    config = resolved.config
    vocabulary = config.model.vocab_size or vocab_size
    if vocabulary is None:
        raise ConfigError(
            f"the number of parameters depends on the vocabulary, which only the {config.tokenizer.tokenizer_type}'s "
            f"file tells; set model.vocab_size to know it beforehand"
        )
    on_rank = max(_stage_parameters(config.model, vocabulary))
    samples = config.train.train_iters * config.train.global_batch_size
    return Estimate(
        parameters=_whole_model(config.model, vocabulary),
        parameters_per_rank=on_rank,
        weight_bytes=on_rank * _weight_width(config),
        gradient_bytes=on_rank * (4 if config.ddp.grad_reduce_in_fp32 else _weight_width(config)),
        optimizer_bytes=_optimizer_bytes(config, on_rank, resolved.data_parallel_size),
        samples=samples,
        tokens=samples * row_length(config),
    )


def row_length(config: ConfigContainer) -> int:
    """Positions of one sample as a run counts them: of a row packed beforehand, else of a sequence."""
    dataset = config.dataset
    packed = dataset.offline_packing_specs.packed_sequence_size if dataset.enable_offline_packing else None
    return packed or dataset.seq_length


def padded_vocabulary(model: ModelConfig, vocab_size: int) -> int:
    """Rows of the embedding: `vocab_size` rounded up so that every tensor parallel rank holds as many.

    The least common multiple, where Megatron-LM takes the product: a model keeps its shape at another tensor parallel
    size, and so do its checkpoints. The padding itself never takes part in the loss.
    """
    multiple = math.lcm(model.make_vocab_size_divisible_by, model.tensor_model_parallel_size)
    return -(-vocab_size // multiple) * multiple


def _norm(model: ModelConfig, width: int) -> int:
    return width * (2 if model.normalization == "LayerNorm" else 1)


def _layer(model: ModelConfig, ranks: int) -> int:
    """Parameters of one block on one of `ranks` tensor parallel ranks.

    Weights and biases of the layers that fan out are split; biases of those that fan in and norms are on every rank.
    """
    hidden, channels, ffn = model.hidden_size, model.kv_channels or 0, model.ffn_hidden_size or 0
    queries = model.num_attention_heads * channels
    qkv = queries + 2 * (model.num_query_groups or 0) * channels
    fan_out = ffn * (2 if model.gated_linear_unit else 1)
    split = hidden * (qkv + queries + fan_out + ffn)
    if model.add_bias_linear or model.add_qkv_bias:
        split += qkv
    if model.add_bias_linear:
        split += fan_out
    whole = 2 * _norm(model, hidden) + (2 * hidden if model.add_bias_linear else 0)
    if model.qk_layernorm:
        whole += 2 * _norm(model, channels)
    return split // ranks + whole


def _embedding(model: ModelConfig, vocabulary: int, ranks: int) -> int:
    words = padded_vocabulary(model, vocabulary) * model.hidden_size // ranks
    if model.position_embedding_type == "learned_absolute":
        words += (model.max_position_embeddings or 0) * model.hidden_size
    return words


def _output(model: ModelConfig, vocabulary: int, ranks: int) -> int:
    return padded_vocabulary(model, vocabulary) * model.hidden_size // ranks


def _whole_model(model: ModelConfig, vocabulary: int) -> int:
    head = 0 if model.share_embeddings_and_output_weights else _output(model, vocabulary, 1)
    return (
        _embedding(model, vocabulary, 1) + model.num_layers * _layer(model, 1) + _norm(model, model.hidden_size) + head
    )


def _stage_parameters(model: ModelConfig, vocabulary: int) -> list[int]:
    """Parameters on one rank of each pipeline stage, all its model chunks together."""
    ranks, stages = model.tensor_model_parallel_size, model.pipeline_model_parallel_size
    parameters = [model.num_layers // stages * _layer(model, ranks)] * stages
    parameters[0] += _embedding(model, vocabulary, ranks)
    parameters[-1] += _norm(model, model.hidden_size)
    # Tied weights are one tensor on one rank, and a copy on the last stage where the model spans several.
    if not model.share_embeddings_and_output_weights or stages > 1:
        parameters[-1] += _output(model, vocabulary, ranks)
    return parameters


def _weight_width(config: ConfigContainer) -> int:
    """Bytes of one weight."""
    return 2 if config.mixed_precision.bf16 or config.mixed_precision.fp16 else 4


def _optimizer_bytes(config: ConfigContainer, on_rank: int, data_parallel_size: int) -> int:
    """Adam keeps two 32-bit moments of each parameter, SGD one where it has momentum.

    The distributed optimizer splits them between the ranks that hold the same weights.
    """
    moments = 2 if config.optimizer.optimizer == "adam" else int(config.optimizer.sgd_momentum > 0)
    master = 1 if _weight_width(config) == 2 else 0
    sharers = data_parallel_size * config.model.context_parallel_size
    per_rank = on_rank * 4 * (moments + master)
    return -(-per_rank // sharers) if config.optimizer.use_distributed_optimizer else per_rank
