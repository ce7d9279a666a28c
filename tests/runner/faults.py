"""Builds that are broken on purpose: the gate of the parallelism tests must catch them."""

from tests.runner.training import train


def train_without_sequence_parallel_marks(*arguments):
    """Gradients of norm weights are not summed over tensor parallel ranks."""
    from trainwright.runner import build

    whole = build.wrap_for_data_parallelism

    def broken(chunks, config):
        for chunk in chunks:
            for parameter in chunk.parameters():
                if getattr(parameter, "sequence_parallel", False):
                    parameter.sequence_parallel = False
        return whole(chunks, config)

    build.wrap_for_data_parallelism = broken
    return train(*arguments, world_size=2)


def train_without_gradient_all_reduce(*arguments):
    """Data parallel ranks keep the gradients of their own samples."""
    from megatron.core.distributed import DistributedDataParallel

    DistributedDataParallel.finish_grad_sync = lambda *args, **kwargs: None
    DistributedDataParallel.start_grad_sync = lambda *args, **kwargs: None
    return train(*arguments, world_size=2)


def train_with_nan_loss(update: int, *arguments):
    """The loss of that attempted update is NaN; -1 means of every one."""
    from trainwright.runner import batches

    whole, calls = batches.language_model_loss, [0]

    def broken(loss_mask, work, losses):
        calls[0] += 1
        attempt = (calls[0] - 1) // 4 + 1  # four micro-batches make an update on one rank
        return whole(loss_mask, work, losses * float("nan") if update in (attempt, -1) else losses)

    batches.language_model_loss = broken
    return train(*arguments)


def train_with_infinite_gradient(update: int, *arguments):
    """One gradient of one rank is infinite in that attempted update, and only there."""
    import torch

    from trainwright.runner import step

    whole, calls = step.forward_backward, [0]

    def broken(trainer, batches, *, forward_only):
        losses = whole(trainer, batches, forward_only=forward_only)
        calls[0] += 1
        if calls[0] == update:
            next(trainer.chunks[0].parameters()).main_grad.view(-1)[0] = torch.inf
        return losses

    step.forward_backward = broken
    return train(*arguments, world_size=2)
