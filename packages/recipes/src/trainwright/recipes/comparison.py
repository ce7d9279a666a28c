"""In what two configurations differ, and which differences make another training of a run."""

from trainwright.recipes.carried import RECORDED
from trainwright.recipes.config import ConfigContainer
from trainwright.recipes.draft import show
from trainwright.recipes.fields import leaves
from trainwright.recipes.presets import ROW_KINDS

NOT_SHAPING = frozenset(
    {
        # How the model is laid over ranks and kernels.
        "model.tensor_model_parallel_size",
        "model.pipeline_model_parallel_size",
        "model.virtual_pipeline_model_parallel_size",
        "model.context_parallel_size",
        "model.expert_model_parallel_size",
        "model.expert_tensor_parallel_size",
        "model.sequence_parallel",
        "model.cross_entropy_loss_fusion",
        "model.cross_entropy_fusion_impl",
        "model.attention_backend",
        # Derived from the data where it matters, and only a matter of summation elsewhere.
        "model.calculate_per_token_loss",
        "model.deterministic_mode",
        "model.log_max_attention_logit",
        "model.recompute_granularity",
        "model.recompute_method",
        "model.recompute_num_layers",
        "model.recompute_modules",
        "model.apply_rope_fusion",
        "model.bias_activation_fusion",
        "model.bias_dropout_fusion",
        "model.masked_softmax_fusion",
        "model.gradient_accumulation_fusion",
        "model.overlap_p2p_comm",
        "model.batch_p2p_comm",
        "model.batch_p2p_sync",
        "model.cp_comm_type",
        "model.disable_parameter_transpose_cache",
        "model.moe_deepep_num_sms",
        "model.moe_hybridep_num_sms",
        "model.moe_hybridep_num_sms_preprocessing",
        "model.moe_permute_fusion_into_hybridep",
        "ddp.overlap_grad_reduce",
        "ddp.align_param_gather",
        "ddp.overlap_param_gather",
        "ddp.average_in_collective",
        "ddp.use_distributed_optimizer",
        "ddp.bucket_size",
        "optimizer.use_distributed_optimizer",
        *RECORDED,
        # When it pauses.
        "train.micro_batch_size",
        "train.manual_gc",
        "train.manual_gc_interval",
        "train.exit_signal_handler",
        "train.exit_duration_in_mins",
        # Where data lies and who loads it.
        "dataset.path_to_cache",
        "dataset.mmap_bin_files",
        "dataset.num_workers",
        # The same sequences of a batch side by side or in one row; and rows that are not trained on.
        "dataset.enable_in_batch_packing",
        "dataset.dataset_kwargs.pad_to_max_length",
        "dataset.do_validation",
        "dataset.do_test",
        "dataset.hf_dataset.validation_split",
        "dataset.hf_dataset.test_split",
    }
)

NOT_SHAPING_SECTIONS = frozenset({"validation", "comm_overlap", "dist", "logger", "profiling", "env_vars"})

SHAPING_OF_CHECKPOINT = frozenset({"checkpoint.pretrained_checkpoint"})
"""Where the weights come from; the other fields of the section are paths and intervals."""


def differences(old: ConfigContainer, new: ConfigContainer) -> list[str]:
    """`section.field: old -> new` for every field that differs."""
    before, after = listed(old), listed(new)
    return [
        f"{path}: {before.get(path, 'null')} -> {after.get(path, 'null')}"
        for path in dict.fromkeys([*before, *after])
        if before.get(path, "null") != after.get(path, "null")
    ]


def shaping_differences(old: ConfigContainer, new: ConfigContainer) -> list[str]:
    """The differences with which the two would train differently.

    Topology, micro batch size, logging, checkpoint paths and intervals, validation, and fused kernels do not count:
    Megatron Core gives the same training for them up to the order of summation. Duration does for token streams that
    are not cyclic: Megatron Core shuffles all passes that a run needs in one, so a longer run has another order of
    samples. Where the weights lie beside which adapters are trained does not: a checkpoint knows which they are.
    """
    by_epoch = new.dataset.dataloader_type == "cyclic" or new.dataset.kind in ROW_KINDS
    free = NOT_SHAPING | ({"train.train_iters"} if by_epoch else set())
    if new.peft is not None and None not in (_weights(old), _weights(new)):
        free |= {"checkpoint.pretrained_checkpoint"}
    return [line for line in differences(old, new) if _shapes(line.partition(": ")[0], free)]


def listed(config: ConfigContainer) -> dict[str, str]:
    """`section.field` -> value, as a user would type it; also inside sections of sections."""
    return {path: show(value) for path, value in leaves(config.model_dump())}


def _weights(config: ConfigContainer) -> str | None:
    return config.checkpoint.pretrained_checkpoint


def _shapes(path: str, free: frozenset[str]) -> bool:
    section = path.partition(".")[0]
    if section == "checkpoint":
        return path in SHAPING_OF_CHECKPOINT - free
    return section not in NOT_SHAPING_SECTIONS and path not in free
