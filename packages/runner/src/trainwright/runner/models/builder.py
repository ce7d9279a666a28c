"""Build this rank's part of the model."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.parameters import padded_vocabulary
from trainwright.runner.models.layer_pattern import layer_pattern
from trainwright.runner.models.layer_spec import stack_spec
from trainwright.runner.models.transformer_config import transformer_config

if TYPE_CHECKING:
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.module import MegatronModule

    from trainwright.runner.models.language_model import LanguageModel


def build_model(config: ConfigContainer, *, vocab_size: int, initialize: bool = True) -> list[MegatronModule]:
    """This rank's model chunks, one for each virtual pipeline stage, initialized and in their training type.

    `vocab_size` counts the tokenizer's tokens, before padding. torch.distributed and Megatron Core's parallel state
    are initialized before, and its parallel random streams seeded. Not wrapped for data parallelism. Without
    `initialize` weights hold whatever their memory holds, and are on PyTorch's default device, `meta` for instance.
    Raises `ValueError` for what Megatron Core refuses.
    """
    from megatron.core.transformer.module import Float16Module

    megatron_config = transformer_config(config)
    if not initialize:
        # Layers then ask PyTorch for its default device, and write nothing into their weights.
        megatron_config.use_cpu_initialization = True
        megatron_config.perform_initialization = False
    chunks = range(config.model.virtual_pipeline_model_parallel_size or 1)
    models = [_build_chunk(config.model, megatron_config, vocab_size, chunk) for chunk in chunks]
    if megatron_config.fp16 or megatron_config.bf16:
        return [Float16Module(megatron_config, model) for model in models]
    return list(models)


def _build_chunk(model: ModelConfig, megatron_config: TransformerConfig, vocab_size: int, chunk: int) -> LanguageModel:
    from megatron.core import parallel_state
    from megatron.core.enums import ModelType
    from megatron.core.tensor_parallel import set_defaults_if_not_set_tensor_model_parallel_attributes

    from trainwright.runner.models.language_model import LanguageModel

    stage = chunk if (model.virtual_pipeline_model_parallel_size or 1) > 1 else None
    built = LanguageModel(
        tokens=vocab_size,
        config=megatron_config,
        hybrid_stack_spec=stack_spec(model),
        vocab_size=padded_vocabulary(model, vocab_size),
        max_sequence_length=model.max_position_embeddings or model.seq_length,
        hybrid_layer_pattern=layer_pattern(model),
        pre_process=parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=stage),
        post_process=parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=stage),
        share_embeddings_and_output_weights=model.share_embeddings_and_output_weights,
        position_embedding_type=model.position_embedding_type,
        rotary_percent=model.rotary_percent,
        rotary_base=model.rotary_base,
        vp_stage=stage,
    )
    built.model_type = ModelType.encoder_or_decoder
    # Layers of multi-latent attention each have a rotary embedding of their own, with parameters for all they need.
    if model.position_embedding_type == "rope" and not model.multi_latent_attention:
        _set_frequencies(built, model)
    if model.recompute_granularity == "full" and hasattr(built, "mtp"):
        _recompute_whole_predictions(built)
    for parameter in built.parameters():
        set_defaults_if_not_set_tensor_model_parallel_attributes(parameter)
    return built


def _set_frequencies(built: LanguageModel, model: ModelConfig) -> None:
    """Megatron Core's rotary embedding has no parameters for most kinds of scaling, and only one class has any."""
    from trainwright.runner.models.rope import inverse_frequencies

    rotary = built.rotary_pos_emb
    rotary.inv_freq = inverse_frequencies(model).to(rotary.inv_freq.device)


def _recompute_whole_predictions(built: LanguageModel) -> None:
    """Megatron Core recomputes a further prediction as a whole, and insists on being told to recompute one layer.

    A block counts as two of them everywhere else.
    """
    for prediction in built.mtp.layers:
        prediction.config = copy(prediction.config)
        prediction.config.recompute_num_layers = 1
