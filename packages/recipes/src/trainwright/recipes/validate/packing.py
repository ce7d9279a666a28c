"""Several sequences in one row."""

from trainwright.recipes.errors import ConfigError
from trainwright.recipes.validate.plan import Plan

OFFLINE, IN_BATCH = "dataset.enable_offline_packing=true", "dataset.enable_in_batch_packing=true"


def packing_is_one_of_two(plan: Plan) -> None:
    """Rows are packed before training or when a batch is collated."""
    dataset = plan.config.dataset
    if dataset.enable_offline_packing and dataset.enable_in_batch_packing:
        raise ConfigError(
            "dataset.enable_offline_packing and dataset.enable_in_batch_packing exclude each other; "
            "set one of them to false"
        )


def further_predictions_are_not_packed(plan: Plan) -> None:
    """Megatron Core weighs the losses of further predictions by micro-batch: a token's would depend on its row."""
    dataset, further = plan.config.dataset, plan.config.model.mtp_num_layers
    if further is not None and (dataset.enable_offline_packing or dataset.enable_in_batch_packing):
        raise ConfigError(
            f"{OFFLINE if dataset.enable_offline_packing else IN_BATCH}: {plan.recipe.stem} predicts further tokens "
            f"(model.mtp_num_layers={further}), which does not go with packed sequences; leave it out, or train "
            f"without further predictions: model.mtp_num_layers=null"
        )


def micro_batch_fits_packing(plan: Plan) -> None:
    """A packed row is a whole micro-batch; packing in the batch needs sequences to pack."""
    dataset, size = plan.config.dataset, plan.config.train.micro_batch_size
    if dataset.enable_offline_packing and size != 1:
        raise ConfigError(
            f"{OFFLINE} needs train.micro_batch_size=1 (-mb), not {size}: a packed row is a micro-batch of its own"
        )
    if dataset.enable_in_batch_packing and size == 1:
        raise ConfigError(f"{IN_BATCH} needs train.micro_batch_size (-mb) of 2 or more: that many sequences make a row")


def loader_fits_packing(plan: Plan) -> None:
    """The loader of whole global batches has no micro-batch to pack."""
    dataset = plan.config.dataset
    if dataset.enable_in_batch_packing and dataset.dataloader_type == "batch":
        raise ConfigError(f"{IN_BATCH} needs dataset.dataloader_type=single or cyclic, not batch")


def packed_rows_are_aligned(plan: Plan) -> None:
    """Every sequence of a row, and so the row, can be cut between the ranks that share it."""
    dataset = plan.config.dataset
    specs, needed = dataset.offline_packing_specs, plan.alignment
    size, multiple = specs.packed_sequence_size, specs.pad_seq_to_mult
    if not dataset.enable_offline_packing or size is None or multiple is None:
        return
    if multiple % needed:
        raise ConfigError(
            f"dataset.offline_packing_specs.pad_seq_to_mult={multiple} is not a multiple of {needed}, which tensor "
            f"{plan.config.model.tensor_model_parallel_size} x context {plan.config.model.context_parallel_size} "
            f"parallel needs"
        )
    if size % multiple:
        raise ConfigError(
            f"dataset.offline_packing_specs.packed_sequence_size={size} is not a multiple of pad_seq_to_mult={multiple}"
        )
    if size < dataset.seq_length:
        raise ConfigError(
            f"dataset.offline_packing_specs.packed_sequence_size={size} is smaller than dataset.seq_length="
            f"{dataset.seq_length}: a long sequence would fit in no row"
        )


RULES = (
    packing_is_one_of_two,
    further_predictions_are_not_packed,
    micro_batch_fits_packing,
    loader_fits_packing,
    packed_rows_are_aligned,
)
