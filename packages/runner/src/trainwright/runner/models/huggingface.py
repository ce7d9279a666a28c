"""Weights of a Hugging Face Llama in this model.

Only a text model of Llama's shape: its names are also those of Mistral, Qwen2 (with `add_qkv_bias`) and Qwen3 (with
`qk_layernorm`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from trainwright.recipes.config.model import ModelConfig
from trainwright.runner.models.layer_pattern import LAYERS_PER_BLOCK


@dataclass(frozen=True)
class Source:
    """Where one of our parameters comes from: names in the Hugging Face state dict, and how they become one tensor."""

    names: tuple[str, ...]
    combine: Callable[[list[Tensor], ModelConfig], Tensor] = lambda tensors, _: tensors[0]


def _interleave_by_group(tensors: list[Tensor], model: ModelConfig) -> Tensor:
    """Query, key and value rows ordered by key/value group: the group's queries, its key, its value."""
    groups, channels = model.num_query_groups, model.kv_channels
    per_group = [tensor.reshape(groups, -1, channels, *tensor.shape[1:]) for tensor in tensors]
    return torch.cat(per_group, dim=1).flatten(0, 2)


def _stack_rows(tensors: list[Tensor], _: ModelConfig) -> Tensor:
    return torch.cat(tensors)


MODEL = {
    "embedding.word_embeddings.weight": Source(("model.embed_tokens.weight",)),
    "decoder.final_norm.weight": Source(("model.norm.weight",)),
    "output_layer.weight": Source(("lm_head.weight",)),
}
ATTENTION = {
    "input_layernorm.weight": Source(("input_layernorm.weight",)),
    "self_attention.linear_qkv.weight": Source(
        ("self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"), _interleave_by_group
    ),
    "self_attention.linear_qkv.bias": Source(
        ("self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"), _interleave_by_group
    ),
    "self_attention.q_layernorm.weight": Source(("self_attn.q_norm.weight",)),
    "self_attention.k_layernorm.weight": Source(("self_attn.k_norm.weight",)),
    "self_attention.linear_proj.weight": Source(("self_attn.o_proj.weight",)),
}
FEED_FORWARD = {
    "pre_mlp_layernorm.weight": Source(("post_attention_layernorm.weight",)),
    "mlp.linear_fc1.weight": Source(("mlp.gate_proj.weight", "mlp.up_proj.weight"), _stack_rows),
    "mlp.linear_fc2.weight": Source(("mlp.down_proj.weight",)),
}
"""Our parameters of the whole model, of an attention layer and of a feed-forward layer."""
VOCABULARY = ("word_embeddings.weight", "output_layer.weight")
"""Parameters with a row for each token, padded."""


def load_huggingface_weights(
    chunks: Iterable[torch.nn.Module], state_dict: Mapping[str, Tensor], model: ModelConfig
) -> None:
    """Fill this rank's model chunks from the whole state dict of a `LlamaForCausalLM`, at any parallel topology.

    Raises `KeyError` for a parameter of ours that the state dict lacks or that this mapping does not know, and
    `ValueError` for one of another shape. Call it before the optimizer is built, which copies weights.
    """
    for chunk in chunks:
        for name, parameter in chunk.named_parameters():
            source = _source(_global_name(chunk, name), model)
            missing = [wanted for wanted in source.names if wanted not in state_dict]
            if missing:
                raise KeyError(f"{name}: the state dict has no {', '.join(missing)}")
            whole = source.combine([state_dict[wanted] for wanted in source.names], model)
            part = _part_of_this_rank(whole, parameter, is_vocabulary=name.endswith(VOCABULARY))
            if part.shape != parameter.shape:
                raise ValueError(f"{name}: {tuple(part.shape)} weights for a parameter of {tuple(parameter.shape)}")
            parameter.data.copy_(part)


def _global_name(chunk: torch.nn.Module, name: str) -> str:
    """The parameter's name with its layer's number in the whole model, and not in this pipeline stage."""
    name = name.removeprefix("module.")
    prefix, found, rest = name.partition("decoder.layers.")
    if not found:
        return name
    number, _, rest = rest.partition(".")
    layers = getattr(chunk, "module", chunk).decoder.layers
    return f"{prefix}{found}{layers[int(number)].layer_number - 1}.{rest}"


def _source(name: str, model: ModelConfig) -> Source:
    if name == "output_layer.weight" and model.share_embeddings_and_output_weights:
        return MODEL["embedding.word_embeddings.weight"]  # the copy on the last of several pipeline stages
    if not name.startswith("decoder.layers."):
        return MODEL[name]
    number, _, rest = name.removeprefix("decoder.layers.").partition(".")
    block, place = divmod(int(number), LAYERS_PER_BLOCK)
    source = (ATTENTION, FEED_FORWARD)[place][rest]
    return Source(tuple(f"model.layers.{block}.{wanted}" for wanted in source.names), source.combine)


def _part_of_this_rank(whole: Tensor, parameter: Tensor, *, is_vocabulary: bool) -> Tensor:
    """This tensor parallel rank's part as Megatron Core's marks describe it; padding of the vocabulary is zero."""
    from megatron.core import parallel_state

    if not getattr(parameter, "tensor_model_parallel", False):
        return whole
    ranks, rank = parallel_state.get_tensor_model_parallel_world_size(), parallel_state.get_tensor_model_parallel_rank()
    dimension, stride = parameter.partition_dim, parameter.partition_stride
    if is_vocabulary:
        whole = torch.nn.functional.pad(whole, (0, 0, 0, parameter.size(0) * ranks - whole.size(0)))
    # Parameters made of several matrices (stride of them) are cut matrix by matrix.
    pieces = whole.chunk(ranks * stride, dim=dimension)
    return torch.cat(pieces[rank::ranks], dim=dimension)
