"""Blocks to the layer pattern of `HybridModel`.

Everywhere else a model has blocks: attention and feed-forward together. `HybridModel` counts them as two layers, so
block i is `decoder.layers.{2i}` and `decoder.layers.{2i + 1}`. Parameters of a block, with their names in checkpoints
of any topology; layers of Transformer Engine hold the norms before them under their own names:

    decoder.layers.{2i}.input_layernorm.{weight, bias}
    decoder.layers.{2i}.self_attention.linear_qkv.{weight, bias}        per key/value group: its queries, key, value
    decoder.layers.{2i}.self_attention.{q_layernorm, k_layernorm}.weight
    decoder.layers.{2i}.self_attention.core_attention.softmax_offset    sinks, one for each head
    decoder.layers.{2i}.self_attention.linear_proj.{weight, bias}
  of multi-latent attention, in place of linear_qkv and of the norms of heads:
    decoder.layers.{2i}.self_attention.linear_q_proj.weight             without q_lora_rank, else
    decoder.layers.{2i}.self_attention.{linear_q_down_proj, q_layernorm, linear_q_up_proj}.weight
    decoder.layers.{2i}.self_attention.{linear_kv_down_proj, kv_layernorm, linear_kv_up_proj}.weight
  of a dense block:
    decoder.layers.{2i + 1}.pre_mlp_layernorm.{weight, bias}
    decoder.layers.{2i + 1}.mlp.{linear_fc1, linear_fc2}.{weight, bias} linear_fc1: gate rows, then up rows
  of a block of experts, in place of mlp.linear_fc*:
    decoder.layers.{2i + 1}.mlp.router.{weight, bias}                   the bias where add_bias_linear
    decoder.layers.{2i + 1}.mlp.router.expert_bias                      a buffer, float32, where it is enabled
    decoder.layers.{2i + 1}.mlp.experts.local_experts.{e}.{linear_fc1, linear_fc2}.{weight, bias}
    decoder.layers.{2i + 1}.mlp.shared_experts.{linear_fc1, linear_fc2}.weight, and .gate_weight where it has a gate
  of multi-token prediction, depth d:
    mtp.layers.{d}.{enorm, hnorm, eh_proj, final_layernorm}.weight      eh_proj: columns of the embedding, then hidden
    mtp.layers.{d}.mtp_model_layer.layers.{0, 1}...                     a block as above
  of the whole model:
    embedding.{word_embeddings, position_embeddings}.weight
    decoder.final_norm.{weight, bias}
    output_layer.weight                                                 not where weights are tied
"""

from __future__ import annotations

from trainwright.recipes.blocks import blocks_per_chunk, expert_blocks
from trainwright.recipes.config.model import ModelConfig

LAYERS_PER_BLOCK = 2
ATTENTION, LATENT_ATTENTION, DENSE, EXPERTS = "*", "+", "-", "E"


def layer_pattern(model: ModelConfig) -> str:
    """The pattern of the whole model, `|` between model chunks, and `/` before a block for each further token.

    4 blocks on 2 stages are `*-*-|*-*-`. Raises `ConfigError` where blocks cannot be shared out.
    """
    blocks = _blocks(model)
    chunks, begin = [], 0
    for count in blocks_per_chunk(model):
        chunks.append("".join(blocks[begin : begin + count]))
        begin += count
    return "/".join(["|".join(chunks), *blocks[-1:] * (model.mtp_num_layers or 0)])


def _blocks(model: ModelConfig) -> list[str]:
    attention = LATENT_ATTENTION if model.multi_latent_attention else ATTENTION
    return [attention + (EXPERTS if experts else DENSE) for experts in expert_blocks(model)]
