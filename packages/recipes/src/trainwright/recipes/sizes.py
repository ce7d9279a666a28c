"""How large a run is: parameters, memory of a rank, samples, tokens and operations."""

from dataclasses import dataclass

from trainwright.recipes.adapters import trainable_parameters
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.flops import floating_point_operations
from trainwright.recipes.memory import Memory, stage_memory
from trainwright.recipes.packing import row_length
from trainwright.recipes.parameters import active_parameters, whole_model
from trainwright.recipes.pipeline import ResolvedRun
from trainwright.recipes.published import published_vocabulary


@dataclass(frozen=True)
class Estimate:
    """Sizes that follow from the configuration alone."""

    parameters: int
    """Of the whole model; tied embeddings count once, adapters not at all."""
    active_parameters: int
    """Those that one token passes: all of a dense model, of experts the chosen ones."""
    adapter_parameters: int | None
    """Those of adapters, which alone are trained; null where the whole model is."""
    memory: Memory
    """Of a rank of the pipeline stage that needs most."""
    samples: int
    """Sequences of the whole run, or packed rows."""
    tokens: int
    """Of full sequences and rows; rows of text are shorter, by how much only their data tells."""
    tokens_per_update: int
    operations_per_update: float
    """Floating point operations over all ranks, as `flops` counts them; each row is taken as one sequence."""

    @property
    def trainable(self) -> str:
        """The parameters that are trained, and adapters' share of all with them, for a person."""
        if self.adapter_parameters is None:
            return f"all {self.parameters:,}"
        whole = self.parameters + self.adapter_parameters
        return f"{self.adapter_parameters:,} in adapters, {self.adapter_parameters / whole:.4%} of {whole:,}"


def estimate(resolved: ResolvedRun, *, vocab_size: int | None = None) -> Estimate:
    """Sizes of a run. `vocab_size` is the tokenizer's, needed where `vocabulary_of` cannot know it.

    Raises ConfigError where the vocabulary is unknown.
    """
    config = resolved.config
    vocabulary = vocabulary_of(resolved, vocab_size)
    rows, length = config.train.global_batch_size, row_length(config)
    samples = config.train.train_iters * rows
    operations = floating_point_operations(config, vocabulary)
    return Estimate(
        parameters=whole_model(config.model, vocabulary).total,
        active_parameters=active_parameters(config.model, vocabulary),
        adapter_parameters=None if config.peft is None else trainable_parameters(config.model, config.peft),
        memory=max(stage_memory(resolved, vocabulary), key=lambda stage: stage.total),
        samples=samples,
        tokens=samples * length,
        tokens_per_update=rows * length,
        operations_per_update=operations.of(rows * length, rows * length**2),
    )


def vocabulary_of(resolved: ResolvedRun, vocab_size: int | None = None) -> int:
    """Tokens before padding: the model's, else `vocab_size`, else the published model's whose tokenizer is named.

    Raises ConfigError where none is known.
    """
    model, tokenizer = resolved.config.model, resolved.config.tokenizer
    vocabulary = model.vocab_size or vocab_size or published_vocabulary(tokenizer.tokenizer_model)
    if vocabulary is None:
        raise ConfigError(
            f"the number of parameters depends on the vocabulary, which only the {tokenizer.tokenizer_type}'s "
            f"file tells; set model.vocab_size to know it beforehand"
        )
    return vocabulary
