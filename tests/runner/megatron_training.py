"""A few updates with Megatron Core's own schedule and nothing of the runner's loop."""

from collections.abc import Sequence
from typing import Any

import torch
from tests.runner.small_models import positions

from trainwright.recipes.config import ConfigContainer


def build(config: ConfigContainer, vocab_size: int) -> tuple[list[Any], Any, Any]:
    """Model chunks wrapped for data parallelism, optimizer and schedule, connected."""
    from trainwright.runner.build import connect, wrap_for_data_parallelism
    from trainwright.runner.models import build_model
    from trainwright.runner.optim import build_optimizer, build_scheduler

    chunks = wrap_for_data_parallelism(build_model(config, vocab_size=vocab_size), config)
    optimizer = build_optimizer(config, chunks)
    connect(chunks, optimizer, config)
    return chunks, optimizer, build_scheduler(config, optimizer)


def backward(chunks: Sequence[Any], optimizer: Any, microbatches: Sequence[torch.Tensor]) -> float:
    """Gradients of the mean loss over micro-batches of tokens [batch, sequence + 1]; returns that loss."""
    from megatron.core.pipeline_parallel import get_forward_backward_func

    def forward(batches: Any, model: Any) -> tuple[Any, Any]:
        tokens = next(batches)
        inputs = tokens[:, :-1].contiguous()
        losses = model(inputs, positions(inputs), None, labels=tokens[:, 1:].contiguous())
        return losses, lambda losses: (losses.sum(), torch.tensor(losses.numel()).int(), losses.detach().mean())

    for chunk in chunks:
        chunk.zero_grad_buffer()
    optimizer.zero_grad()
    (chunk,) = chunks
    batch, length = microbatches[0].shape
    losses = get_forward_backward_func()(
        forward_step_func=forward,
        data_iterator=iter(microbatches),
        model=chunk,
        num_microbatches=len(microbatches),
        seq_length=length - 1,
        micro_batch_size=batch,
        forward_only=False,
    )
    return float(torch.stack(losses).mean())


def gradients(chunks: Sequence[Any]) -> torch.Tensor:
    """All gradients of this rank as one vector."""
    return torch.cat([parameter.main_grad.flatten() for chunk in chunks for parameter in chunk.parameters()])
