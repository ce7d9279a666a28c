"""How large a run is: parameters, memory of a rank, samples and tokens."""

from dataclasses import dataclass

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.parameters import (
    Count,
    active_parameters,
    split_of,
    stage_parameters,
    stage_words,
    whole_model,
)
from trainwright.recipes.pipeline import ResolvedRun


@dataclass(frozen=True)
class Estimate:
    """Sizes that follow from the configuration alone. Bytes are of the fullest rank; activations are not included."""

    parameters: int
    """Of the whole model; tied embeddings count once."""
    active_parameters: int
    """Those that one token passes: all of a dense model, of experts the chosen ones."""
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
    stages = stage_parameters(config.model, vocabulary)
    on_rank = max(count.total for count in stages)
    samples = config.train.train_iters * config.train.global_batch_size
    return Estimate(
        parameters=whole_model(config.model, vocabulary).total,
        active_parameters=active_parameters(config.model, vocabulary),
        parameters_per_rank=on_rank,
        weight_bytes=on_rank * _weight_width(config),
        gradient_bytes=on_rank * (4 if config.ddp.grad_reduce_in_fp32 else _weight_width(config)),
        optimizer_bytes=max(
            _optimizer_bytes(resolved, count, words)
            for count, words in zip(stages, stage_words(config.model, vocabulary), strict=True)
        ),
        samples=samples,
        tokens=samples * row_length(config),
    )


def row_length(config: ConfigContainer) -> int:
    """Positions of one sample as a run counts them: of a row packed beforehand, else of a sequence."""
    dataset = config.dataset
    packed = dataset.offline_packing_specs.packed_sequence_size if dataset.enable_offline_packing else None
    return packed or dataset.seq_length


_WIDTHS = {"float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of a number."""


def _weight_width(config: ConfigContainer) -> int:
    """Bytes of one weight."""
    return 2 if config.mixed_precision.bf16 or config.mixed_precision.fp16 else 4


def _optimizer_bytes(resolved: ResolvedRun, on_rank: Count, words: int) -> int:
    """Adam keeps two moments of each parameter, SGD one where it has momentum, and each a copy of 16-bit weights.

    Muon keeps one of its matrices, and Adam beside it two of the `words` of embedding and output layer (norms and
    biases are too few to count). The distributed optimizer splits them between the ranks that hold the same weights,
    and so does `dist_muon`, matrix by matrix.
    """
    config, split = resolved.config, split_of(resolved.config.model)
    optimizer = config.optimizer
    each, more = _WIDTHS[optimizer.main_params_dtype] if _weight_width(config) == 2 else 0, 0
    if optimizer.optimizer == "adam":
        each += _WIDTHS[optimizer.exp_avg_dtype] + _WIDTHS[optimizer.exp_avg_sq_dtype]
    elif optimizer.optimizer == "sgd":
        each += 4 * int(optimizer.sgd_momentum > 0)
    else:
        each, more = each + 4, 4 * words
    sharers, expert_sharers = 1, 1
    if optimizer.use_distributed_optimizer or optimizer.optimizer == "dist_muon":
        sharers = resolved.data_parallel_size * config.model.context_parallel_size
        expert_sharers = sharers * split.tensor // (split.experts * split.expert_tensor)
    return -(-(on_rank.dense * each + more) // sharers) + -(-on_rank.experts * each // expert_sharers)
