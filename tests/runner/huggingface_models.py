"""Shrunk models of every family, random, made by transformers; and their logits here at a topology."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

VOCABULARY, LENGTH = 200, 32
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "initializer_range": 0.1,
    "pad_token_id": None,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def llama(**changes: Any) -> Any:
    """Llama 3.1: grouped queries, scaled frequencies, an output layer of its own."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**{**SIZES, "rope_parameters": LLAMA3_ROPE, **changes}))


def qwen3(**changes: Any) -> Any:
    """Qwen3: norms of heads, which are wider than the hidden size divided by their number."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(Qwen3Config(**{**SIZES, **changes}))


EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 48}
SHARED_EXPERTS = {
    **EXPERTS,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "routed_scaling_factor": 2.5,
    "num_nextn_predict_layers": 0,
}


def qwen3_moe(**changes: Any) -> Any:
    """Qwen3 with experts."""
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    return Qwen3MoeForCausalLM(Qwen3MoeConfig(**{**SIZES, **EXPERTS, "num_experts": 8, **changes}))


def gpt_oss(**changes: Any) -> Any:
    """GPT-OSS: a window shorter than the row, a limit that is reached, sequences longer than YaRN's original."""
    from transformers import GptOssConfig, GptOssForCausalLM

    rope = {
        "rope_type": "yarn",
        "rope_theta": 150_000.0,
        "factor": 4.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 16,
    }
    own = {
        "intermediate_size": 64,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "sliding_window": 8,
        "swiglu_limit": 0.5,
        "rope_parameters": rope,
    }
    return GptOssForCausalLM(GptOssConfig(**{**SIZES, **own, **changes}))


def deepseek(**changes: Any) -> Any:
    """DeepSeek-V3: YaRN with its two factors, groups of experts, latents of queries too."""
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

    rope = {
        "rope_type": "yarn",
        "rope_theta": 10_000.0,
        "factor": 4.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "mscale": 0.8,
        "mscale_all_dim": 0.6,
        "original_max_position_embeddings": 16,
    }
    own = {
        "n_group": 4,
        "topk_group": 2,
        "num_experts_per_tok": 4,
        "num_key_value_heads": 8,
        "q_lora_rank": 32,
        "kv_lora_rank": 24,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 12,
        "rope_parameters": rope,
    }
    sizes = {name: size for name, size in SIZES.items() if name != "head_dim"}
    return DeepseekV3ForCausalLM(DeepseekV3Config(**{**sizes, **SHARED_EXPERTS, **own, **changes}))


def moonlight(**changes: Any) -> Any:
    """Moonlight: queries from one matrix, no groups, a plain rotary embedding."""
    plain = {"rope_type": "default", "rope_theta": 50_000.0}
    return deepseek(**{"q_lora_rank": None, "n_group": 1, "topk_group": 1, "rope_parameters": plain, **changes})


def glm45(**changes: Any) -> Any:
    """GLM-4.5: half of a head's channels rotated, biases of queries, keys and values."""
    from transformers import Glm4MoeConfig, Glm4MoeForCausalLM

    own = {"n_group": 1, "topk_group": 1, "use_qk_norm": True, "attention_bias": True}
    return Glm4MoeForCausalLM(Glm4MoeConfig(**{**SIZES, **SHARED_EXPERTS, **own, **changes}))


MODELS: dict[str, Callable[..., Any]] = {
    "llama": llama,
    "llama, tied": partial(llama, tie_word_embeddings=True),
    "qwen3": qwen3,
    "qwen3, tied": partial(qwen3, tie_word_embeddings=True),
    "qwen3_moe": qwen3_moe,
    "qwen3_moe, weights of the chosen": partial(qwen3_moe, norm_topk_prob=True, mlp_only_layers=[1]),
    "gpt_oss": gpt_oss,
    "deepseek": deepseek,
    "moonlight": moonlight,
    "glm45": glm45,
    "glm45, air": partial(glm45, use_qk_norm=False),
}


def make(name: str, **changes: Any) -> Any:
    """The model, float32, every norm and bias away from its initial value; `changes` are of its `config.json`."""
    torch.manual_seed(0)
    model = MODELS[name](**changes).eval()
    for parameter_name, parameter in model.named_parameters():
        if "norm" in parameter_name:  # all ones would hide a norm in the wrong place
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
        elif parameter.dim() == 1 or parameter_name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.1)
    for buffer_name, buffer in model.named_buffers():
        if buffer_name.endswith("e_score_correction_bias"):
            torch.nn.init.normal_(buffer, std=0.1)
    return model


def ids() -> torch.Tensor:
    """Two rows of random tokens."""
    return torch.randint(0, VOCABULARY, (2, LENGTH), generator=torch.Generator().manual_seed(1))


def save(name: str, folder: Path) -> torch.Tensor:
    """Save the model in `folder`, and return its logits."""
    model = make(name)
    model.save_pretrained(folder)
    with torch.no_grad():
        logits: torch.Tensor = model(input_ids=ids()).logits
    return logits


def differences(cases: dict[str, tuple[Path, torch.Tensor, dict[str, Any]]]) -> dict[str, float]:
    """On this rank, for each case (checkpoint, wanted logits, fields of the topology): the largest difference.

    A rank that has no logits, on an early pipeline stage, answers 0.
    """
    return {name: _difference(*case) for name, case in cases.items()}


def _difference(checkpoint: Path, wanted: torch.Tensor, topology: dict[str, Any]) -> float:
    from megatron.core import parallel_state
    from tests.runner.small_models import start_groups

    from trainwright.runner.checkpoints.conversion import open_weights, require_model
    from trainwright.runner.checkpoints.pretrained import fill
    from trainwright.runner.checkpoints.verification import plain_run
    from trainwright.runner.models import build_model

    weights = open_weights(checkpoint)
    plain = plain_run(require_model(weights), LENGTH)
    config = plain.model_copy(update={"model": plain.model.model_copy(update=topology)})
    start_groups(config)
    chunks = build_model(config, vocab_size=VOCABULARY)
    fill(chunks, weights)
    found = logits(chunks)
    parallel_state.destroy_model_parallel()
    return 0.0 if found is None else (found[..., :VOCABULARY] - wanted).abs().max().item()


def logits(chunks: list[Any]) -> torch.Tensor | None:
    """Of `ids()`, through all pipeline stages; null on a stage that is not the last."""
    from megatron.core import parallel_state
    from megatron.core.pipeline_parallel import get_forward_backward_func

    def step(batches: Any, chunk: Any) -> Any:
        batch = next(batches)
        positions = torch.arange(LENGTH).expand_as(batch)
        return chunk(batch, positions, None, runtime_gather_output=True), lambda output, non_loss_data: output

    for chunk in chunks:
        chunk.eval()
    with torch.no_grad():
        found = get_forward_backward_func()(
            forward_step_func=step,
            data_iterator=[iter([ids()]) for _ in chunks] if len(chunks) > 1 else iter([ids()]),
            model=chunks if len(chunks) > 1 else chunks[0],
            num_microbatches=1,
            seq_length=LENGTH,
            micro_batch_size=2,
            forward_only=True,
            collect_non_loss_data=True,
        )
    return found[0] if parallel_state.is_pipeline_last_stage(ignore_virtual=True) else None
