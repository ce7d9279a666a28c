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
