"""What a run on a CPU really holds: the bytes of its tensors, those that autograd keeps among them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trainwright.recipes import Selection, resolve
from trainwright.recipes.memory import stage_memory

KINDS = ("weights", "gradients", "optimizer", "activations")
Case = tuple[str, list[str]]
"""A recipe, and words that shrink it and say what is special."""

SHRUNK = {
    "model.num_layers": 4,
    "model.hidden_size": 64,
    "model.num_attention_heads": 8,
    "model.num_query_groups": 2,
    "model.kv_channels": 16,
    "model.ffn_hidden_size": 160,
    "model.make_vocab_size_divisible_by": 8,
    "model.tensor_model_parallel_size": 1,
    "model.pipeline_model_parallel_size": 1,
    "model.virtual_pipeline_model_parallel_size": "null",
    "model.context_parallel_size": 1,
    "model.sequence_parallel": "false",
    "tokenizer.tokenizer_type": "NullTokenizer",
    "tokenizer.tokenizer_model": "null",
    "tokenizer.vocab_size": 200,
    "dataset.seq_length": 64,
    "train.global_batch_size": 8,
    "train.micro_batch_size": 2,
    "train.train_iters": 4,
    "validation.eval_interval": "null",
    "scheduler.lr_warmup_iters": 0,
    # Hooks on saved tensors hand weights back without the marks that overlapping looks for.
    "ddp.overlap_grad_reduce": "false",
    "ddp.overlap_param_gather": "false",
}
EXPERTS = {
    "model.num_moe_experts": 8,
    "model.moe_ffn_hidden_size": 32,
    "model.moe_router_topk": 2,
    "model.expert_model_parallel_size": 1,
}
LATENT = EXPERTS | {
    "model.num_query_groups": 8,
    "model.kv_channels": "null",
    "model.q_lora_rank": 24,
    "model.kv_lora_rank": 20,
    "model.qk_head_dim": 16,
    "model.qk_pos_emb_head_dim": 8,
    "model.v_head_dim": 12,
    "model.moe_layer_freq": "[0,1,1,1]",
    "model.moe_shared_expert_intermediate_size": 32,
    "model.moe_router_num_groups": 4,
    "model.moe_router_group_topk": 2,
    "model.mtp_num_layers": 1,
}
"""DeepSeek's: latents, experts with shared ones, and a further prediction."""


def case(recipe: str, **fields: object) -> Case:
    """A shrunk recipe; `fields` are of `model`, or of another section where they have its name and two underscores."""
    sizes = {"qwen3": EXPERTS, "gpt_oss": EXPERTS, "deepseek": LATENT, "glm45": EXPERTS}
    values: dict[str, object] = SHRUNK | next((one for name, one in sizes.items() if recipe.startswith(name)), {})
    for name, value in fields.items():
        section, _, field = name.partition("__")
        values[f"{section}.{field}" if field else f"model.{name}"] = value
    return recipe, [f"{path}={value}" for path, value in values.items()]


def held_of(cases: dict[str, Case]) -> dict[str, tuple[dict[str, int], dict[str, int]]]:
    """`held` of each case on a single rank, one after the other in the same process."""
    return {name: held(recipe, words) for name, (recipe, words) in cases.items()}


def held(recipe: str, words: list[str], world_size: int = 1) -> tuple[dict[str, int], dict[str, int]]:
    """Of this rank after an update: bytes by kind as they are there, and as `stage_memory` has them for its stage."""
    from trainwright.runner.devices import use_device

    device = use_device("cpu")
    from megatron.core import parallel_state

    from trainwright.runner.build import build_data, build_trainer
    from trainwright.runner.distributed import place, start, stop
    from trainwright.runner.step import train_step

    resolved = resolve(Selection(recipe=recipe), words, world_size=world_size, device="cpu")
    start(resolved.config, device, place())
    trainer, tokenizer = build_trainer(resolved, device)
    data = build_data(resolved, tokenizer, device, consumed_samples=0)
    train_step(trainer, data.train)  # the optimizer makes its state at the first one
    with kept_for_backward(trainer) as peak:
        train_step(trainer, data.train)
    found = {
        "weights": sum(p.nbytes for chunk in trainer.chunks for p in chunk.parameters()),
        "gradients": gradient_bytes(trainer),
        "optimizer": optimizer_bytes(trainer),
        "activations": peak[0],
    }
    stage = parallel_state.get_pipeline_model_parallel_rank()
    stop()
    vocabulary = resolved.config.model.vocab_size or tokenizer.vocab_size
    planned = stage_memory(resolved, vocabulary)[stage]
    return found, {kind: getattr(planned, kind) for kind in KINDS}


def gradient_bytes(trainer: Any) -> int:
    """Of Megatron Core's gradient buffers."""
    return sum(
        buffer.grad_data.nbytes
        for chunk in trainer.chunks
        for buffer in (*chunk.buffers, *chunk.expert_parallel_buffers)
    )


def optimizer_bytes(trainer: Any) -> int:
    """Of all tensors in the optimizers' states."""
    parts = getattr(trainer.optimizer, "chained_optimizers", [trainer.optimizer])
    states = (state for part in parts for state in part.optimizer.state.values())
    return sum(value.nbytes for state in states for value in state.values() if hasattr(value, "nbytes"))


@contextmanager
def kept_for_backward(trainer: Any) -> Iterator[list[int]]:
    """The most bytes that autograd keeps at once, each block of memory once, weights and gradients left out.

    Memory that output-discarding recomputation gives back while the tensor stays counts as what is left of it.
    """
    import torch

    parameters = [one for chunk in trainer.chunks for one in chunk.parameters()]
    gradients = [one.main_grad for one in parameters if one.requires_grad]
    others = {one.untyped_storage().data_ptr() for one in (*parameters, *gradients)}
    live: dict[int, list[Any]] = {}
    peak = [0]

    class Holder:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor.detach()
            self.key = tensor.untyped_storage()._cdata
            entry = live.setdefault(self.key, [0, self.tensor.untyped_storage()])
            entry[0] += 1

        def __del__(self) -> None:
            live[self.key][0] -= 1
            if not live[self.key][0]:
                del live[self.key]

    def pack(tensor: Any) -> Any:
        if tensor.untyped_storage().data_ptr() in others:
            return tensor
        holder = Holder(tensor)
        peak[0] = max(peak[0], sum(storage.nbytes() for _, storage in live.values()))
        return holder

    def unpack(packed: Any) -> Any:
        return packed.tensor if isinstance(packed, Holder) else packed

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        yield peak
