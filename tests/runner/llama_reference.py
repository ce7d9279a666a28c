"""The same Llama in transformers and here: logits on one rank and on several."""

from typing import Any

import torch
from tests.runner.reference_weights import fill_from
from tests.runner.small_models import LLAMA, VOCABULARY, configuration, positions, start_groups, tokens


def transformers_llama(model: dict[str, Any] = LLAMA) -> Any:
    """A random `LlamaForCausalLM` with the sizes of `model`, float32."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    llama = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=model["hidden_size"],
            intermediate_size=model["ffn_hidden_size"],
            num_hidden_layers=model["num_layers"],
            num_attention_heads=model["num_attention_heads"],
            num_key_value_heads=model["num_query_groups"],
            head_dim=model["kv_channels"],
            max_position_embeddings=model["max_position_embeddings"],
            rms_norm_eps=1e-5,
            tie_word_embeddings=model.get("share_embeddings_and_output_weights", True),
            initializer_range=0.1,
            rope_parameters={
                "rope_type": "llama3",
                "rope_theta": model["rotary_base"],
                "factor": model["rope_scaling_factor"],
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": model["rope_scaling_original_max_position_embeddings"],
            },
        )
    ).eval()
    for name, parameter in llama.named_parameters():
        if "norm" in name:  # all ones would hide a norm in the wrong place
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return llama


def logits_differences(cases: dict[str, dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """On this rank, for each case (changes to `LLAMA`): largest absolute difference to transformers' logits, and the
    largest logit."""
    return {name: _logits_difference(changes) for name, changes in cases.items()}


def _logits_difference(changes: dict[str, Any]) -> tuple[float, float]:
    from megatron.core import parallel_state

    from trainwright.runner.batches import slice_for_context_parallel
    from trainwright.runner.models import build_model

    # The reference always scales its frequencies; a case that does not is the control.
    reference = transformers_llama(LLAMA | changes)
    config = configuration(LLAMA | changes)
    start_groups(config)
    (ours,) = build_model(config, vocab_size=VOCABULARY)
    fill_from([ours], reference)
    ids = tokens()
    context = parallel_state.get_context_parallel_rank(), parallel_state.get_context_parallel_world_size()
    with torch.no_grad():
        wanted = slice_for_context_parallel({"logits": reference(input_ids=ids).logits}, *context)["logits"]
        batch = slice_for_context_parallel({"ids": ids, "positions": positions(ids)}, *context)
        logits = ours.eval()(batch["ids"], batch["positions"], None, runtime_gather_output=True)
    parallel_state.destroy_model_parallel()
    return (logits[..., :VOCABULARY] - wanted).abs().max().item(), wanted.abs().max().item()
