"""What a run on a CPU really holds: the bytes of its tensors, those that autograd keeps among them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trainwright.recipes import Selection, resolve
from trainwright.recipes.memory import stage_memory

KINDS = ("weights", "gradients", "optimizer", "activations")


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

    others = {p.untyped_storage().data_ptr() for chunk in trainer.chunks for p in chunk.parameters()}
    others |= {p.main_grad.untyped_storage().data_ptr() for chunk in trainer.chunks for p in chunk.parameters()}
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
