"""Native checkpoints that Megatron Core's `GPTModel` writes, on one rank."""

from pathlib import Path
from typing import Any

import torch


def write(folder: Path, kind: str, *, alike: bool) -> torch.Tensor:
    """Write a random model of `kind` (`dense` or `experts`) as Megatron-LM does, and return its logits of `ids()`.

    `alike` stores each parameter of all blocks in one tensor, Megatron Core's default.
    """
    from megatron.core import dist_checkpointing, parallel_state
    from tests.runner.huggingface_models import LENGTH, ids
    from tests.runner.small_models import start_groups

    from trainwright.runner.devices import chosen_device
    from trainwright.runner.models.rope import inverse_frequencies

    config = configuration(kind)
    start_groups(config)
    model = gpt_model(config)
    model.rotary_pos_emb.inv_freq = inverse_frequencies(config.model)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    with torch.no_grad():
        logits = model.eval()(ids(), torch.arange(LENGTH).expand_as(ids()), None)
    folder.mkdir()
    state = model.sharded_state_dict(metadata={"non_homogeneous_layers": not alike})
    chosen_device().prepare_save(asynchronous=False)
    dist_checkpointing.save({**state, "iteration": 7}, str(folder))
    parallel_state.destroy_model_parallel()
    return logits


def configuration(kind: str) -> Any:
    """A run's configuration of the same model."""
    from tests.runner.huggingface_models import LENGTH, VOCABULARY
    from tests.runner.small_models import LLAMA
    from tests.runner.small_models import configuration as plain

    own = {"vocab_size": VOCABULARY, "seq_length": LENGTH, "share_embeddings_and_output_weights": False}
    experts = {"num_moe_experts": 4, "moe_ffn_hidden_size": 48, "qk_layernorm": True, "add_qkv_bias": True}
    return plain({**LLAMA, **own, **(experts if kind == "experts" else {})})


def gpt_model(config: Any) -> Any:
    """Megatron Core's own class with its own local layers, but for the norm and attention, which know a CPU."""
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer.transformer_block import TransformerBlockSubmodules

    from trainwright.recipes.parameters import padded_vocabulary
    from trainwright.runner.models import transformer_config
    from trainwright.runner.models.norm import Norm

    model = config.model
    megatron = transformer_config(config)
    megatron.num_layers, megatron.is_hybrid_model, megatron.use_te_activation_func = model.num_layers, False, False
    layer = get_gpt_layer_local_spec(
        num_experts=model.num_moe_experts,
        moe_grouped_gemm=False,
        qk_layernorm=model.qk_layernorm,
        normalization="RMSNorm",
    )
    block = TransformerBlockSubmodules(layer_specs=[layer] * model.num_layers, layer_norm=Norm)
    return GPTModel(
        config=megatron,
        transformer_layer_spec=block,
        vocab_size=padded_vocabulary(model, model.vocab_size),
        max_sequence_length=model.seq_length,
        position_embedding_type="rope",
        rotary_base=model.rotary_base,
        share_embeddings_and_output_weights=False,
    )


def difference(folder: Path, wanted: torch.Tensor, kind: str, topology: dict[str, Any]) -> float:
    """Of our logits to `wanted`, on this rank, loaded from the checkpoint at a topology."""
    from megatron.core import parallel_state
    from tests.runner.huggingface_models import VOCABULARY, logits
    from tests.runner.small_models import start_groups

    from trainwright.runner.checkpoints.conversion import open_weights
    from trainwright.runner.checkpoints.pretrained import fill
    from trainwright.runner.models import build_model

    plain = configuration(kind)
    config = plain.model_copy(update={"model": plain.model.model_copy(update=topology)})
    start_groups(config)
    chunks = build_model(config, vocab_size=VOCABULARY)
    fill(chunks, open_weights(folder))
    found = logits(chunks)
    parallel_state.destroy_model_parallel()
    return 0.0 if found is None else (found - wanted)[..., :VOCABULARY].abs().max().item()


def write_all(folder: Path) -> dict[tuple[str, bool], float]:
    """Every kind, one after the other: `KIND-ALIKE` in `folder`."""
    torch.manual_seed(0)
    cases = [(kind, alike) for kind in ("dense", "experts") for alike in (True, False)]
    made = {}
    for kind, alike in cases:
        logits = write(folder / f"{kind}-{alike}", kind, alike=alike)
        torch.save(logits, folder / f"{kind}-{alike}.pt")
        made[kind, alike] = logits.abs().max().item()
    return made
