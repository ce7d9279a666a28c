"""Builds that are broken on purpose: the gate of the parallelism tests must catch them."""

from importlib import import_module

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


def train_without_bias_update(world_size, *arguments):
    """The bias with which a router balances its experts is never changed."""
    module = import_module("megatron.core.distributed.finalize_model_grads")  # the package has a function of that name
    module._update_router_expert_bias = lambda *args, **kwargs: None
    return train(*arguments, world_size=world_size)


def train_without_shared_key_gradient(world_size, *arguments):
    """The one rotated key of multi-latent attention gets the gradients of one tensor parallel rank's heads."""
    from megatron.core.transformer import multi_latent_attention

    whole = multi_latent_attention.gather_from_sequence_parallel_region

    def broken(x, **options):
        return whole(x, **{**options, "tensor_parallel_output_grad": False})

    multi_latent_attention.gather_from_sequence_parallel_region = broken
    return train(*arguments, world_size=world_size)


def train_with_sinks_of_the_first_rank(world_size, *arguments):
    """Every tensor parallel rank loads the sinks of the first one's heads."""
    from trainwright.runner.models.attention import SdpaAttention

    whole = SdpaAttention._with_sink

    def broken(self, *tensors):
        key, value, added = whole(self, *tensors)
        heads = added.size(1)
        return key, value, added if self.tp_group.rank() == 0 else added.roll(heads // 2, 1)

    SdpaAttention._with_sink = broken
    return train(*arguments, world_size=world_size)


def train_with_scaled_expert_gradients(world_size, *arguments):
    """Gradients of experts are divided by the expert parallel size once more."""
    from trainwright.runner import step

    whole = step.apply_gradients

    def broken(trainer, **options):
        for chunk in trainer.chunks:
            for parameter in chunk.parameters():
                if not getattr(parameter, "allreduce", True):
                    parameter.main_grad.div_(2)
        return whole(trainer, **options)

    step.apply_gradients = broken
    return train(*arguments, world_size=world_size)


def train_with_another_clamp(world_size, *arguments):
    """Gated units are clamped far outside."""
    from trainwright.runner.models import builder

    whole = builder.transformer_config

    def broken(config):
        made = whole(config)
        made.activation_func_clamp_value = 7.0
        return made

    builder.transformer_config = broken
    return train(*arguments, world_size=world_size)
