"""Small models and what a rank needs to run them. Import it after a device is chosen."""

from typing import Any

from trainwright.recipes.config import ConfigContainer

SEQUENCE = 64
VOCABULARY = 200  # padded to 256: one rank and two ranks alike

LLAMA: dict[str, Any] = {
    "num_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 8,
    "num_query_groups": 2,
    "kv_channels": 8,
    "ffn_hidden_size": 160,
    "vocab_size": VOCABULARY,
    "seq_length": SEQUENCE,
    "max_position_embeddings": SEQUENCE,
    "normalization": "RMSNorm",
    "activation_func": "silu",
    "gated_linear_unit": True,
    "add_bias_linear": False,
    "position_embedding_type": "rope",
    "rotary_base": 500_000.0,
    "rope_scaling": True,
    "rope_scaling_factor": 32.0,
    # Short enough that the scaling changes most frequencies.
    "rope_scaling_original_max_position_embeddings": 32,
}

GPT: dict[str, Any] = {
    "num_layers": 2,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_query_groups": 4,
    "kv_channels": 8,
    "ffn_hidden_size": 128,
    "vocab_size": VOCABULARY,
    "seq_length": SEQUENCE,
    "max_position_embeddings": SEQUENCE,
}


def configuration(model: dict[str, Any], **sections: dict[str, Any]) -> ConfigContainer:
    """A whole configuration around a model section, with further sections merged in."""
    values: dict[str, Any] = {
        "model": model,
        "train": {"train_iters": 10, "global_batch_size": 8, "micro_batch_size": 2},
        "dataset": {"seq_length": model["seq_length"]},
        "optimizer": {"lr": 1e-3},
    }
    for name, section in sections.items():
        values[name] = values.get(name, {}) | section
    return ConfigContainer.model_validate(values)


def start_groups(config: ConfigContainer, *, seed: int = 1234) -> None:
    """torch.distributed, Megatron Core's groups and its random streams, on this rank."""
    import torch
    from megatron.core import parallel_state, tensor_parallel

    from trainwright.runner.devices import chosen_device

    model = config.model
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo")
    parallel_state.initialize_model_parallel(
        model.tensor_model_parallel_size,
        model.pipeline_model_parallel_size,
        model.virtual_pipeline_model_parallel_size,
        context_parallel_size=model.context_parallel_size,
        expert_model_parallel_size=model.expert_model_parallel_size,
        expert_tensor_parallel_size=model.expert_tensor_parallel_size,
    )
    chosen_device().seed(seed)
    tensor_parallel.model_parallel_cuda_manual_seed(seed)


def tokens(batch: int = 2, length: int = SEQUENCE, *, seed: int = 0) -> Any:
    """Random token ids, [batch, length]."""
    import torch

    return torch.randint(0, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(seed))


def positions(ids: Any) -> Any:
    """Position of each token, [batch, length]."""
    import torch

    return torch.arange(ids.size(1)).expand_as(ids)
