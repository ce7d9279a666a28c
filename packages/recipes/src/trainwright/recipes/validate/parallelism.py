"""The grid of ranks against the model and the sequence."""

from trainwright.recipes.errors import ConfigError
from trainwright.recipes.packing import alignment
from trainwright.recipes.validate.plan import Plan


def world_is_a_multiple(plan: Plan) -> None:
    """Whole copies of the model fill the world."""
    model = plan.config.model
    if plan.world_size % plan.model_ranks:
        raise ConfigError(
            f"world size {plan.world_size} is not a multiple of {plan.model_ranks} = tensor "
            f"{model.tensor_model_parallel_size} x pipeline {model.pipeline_model_parallel_size} x context "
            f"{model.context_parallel_size} parallel"
        )


def tensor_parallel_divides(plan: Plan) -> None:
    """Every tensor parallel rank holds the same part of each layer."""
    model = plan.config.model
    size, groups = model.tensor_model_parallel_size, model.num_query_groups or model.num_attention_heads
    for name in ("num_attention_heads", "ffn_hidden_size"):
        if getattr(model, name) % size:
            raise ConfigError(f"model.{name}={getattr(model, name)} is not a multiple of {_tp(size)}")
    # Megatron Core repeats key/value heads where there are fewer of them than ranks.
    if groups % size and size % groups:
        raise ConfigError(f"model.num_query_groups={groups} is neither a multiple nor a divisor of {_tp(size)}")
    if 2 * groups * (model.kv_channels or 0) % size:
        raise ConfigError(f"{groups} key/value heads of {model.kv_channels} channels do not divide over {_tp(size)}")


def sequence_parallel_has_ranks(plan: Plan) -> None:
    """Sequence parallelism is a form of tensor parallelism."""
    model = plan.config.model
    if model.sequence_parallel and model.tensor_model_parallel_size == 1:
        raise ConfigError("model.sequence_parallel=true needs model.tensor_model_parallel_size (-tp) of 2 or more")


def sequence_divides(plan: Plan) -> None:
    """Every rank gets the same part of a sequence."""
    model, length = plan.config.model, plan.config.dataset.seq_length
    context, tensor = model.context_parallel_size, model.tensor_model_parallel_size
    # Each context parallel rank takes one piece from the front and one from the back, to balance causal attention.
    if length % (pieces := alignment(1, context, False, False)):
        raise ConfigError(
            f"dataset.seq_length={length} is not a multiple of {pieces} = 2 x model.context_parallel_size={context}"
        )
    if length % alignment(tensor, context, model.sequence_parallel, False):
        raise ConfigError(
            f"dataset.seq_length={length} over {context} context parallel ranks is not a multiple of {_tp(tensor)}, "
            f"which sequence parallelism needs"
        )
    if length % plan.alignment:
        raise ConfigError(f"dataset.seq_length={length} is not a multiple of {plan.alignment}, which fp8 needs")


def layers_fill_stages(plan: Plan) -> None:
    """Every model chunk of every pipeline stage has the same number of layers."""
    model = plan.config.model
    stages = model.pipeline_model_parallel_size
    if plan.chunks > 1 and stages == 1:
        raise ConfigError(
            f"model.virtual_pipeline_model_parallel_size={plan.chunks} needs "
            f"model.pipeline_model_parallel_size (-pp) of 2 or more"
        )
    if model.num_layers % (stages * plan.chunks):
        virtual = f" x {plan.chunks} model chunks" if plan.chunks > 1 else ""
        raise ConfigError(
            f"model.num_layers={model.num_layers} is not a multiple of {stages * plan.chunks} = {stages} pipeline "
            f"stages{virtual}"
        )


def experts_exist(plan: Plan) -> None:
    """Expert parallelism needs experts, and no recipe of this version has any."""
    model = plan.config.model
    for name, size in (
        ("expert_model_parallel_size", model.expert_model_parallel_size),
        ("expert_tensor_parallel_size", model.expert_tensor_parallel_size or 1),
    ):
        if size > 1:
            raise ConfigError(f"model.{name}={size}: the model is dense, it has no experts to split")


def point_to_point_fits_schedule(plan: Plan) -> None:
    """Only the interleaved schedule can overlap its sends with computation."""
    if plan.draft["model.overlap_p2p_comm"] and plan.chunks == 1:
        raise ConfigError(
            "model.overlap_p2p_comm=true needs an interleaved pipeline "
            "(model.virtual_pipeline_model_parallel_size of 2 or more)"
        )


def _tp(size: int) -> str:
    return f"model.tensor_model_parallel_size={size}"


RULES = (
    experts_exist,
    world_is_a_multiple,
    tensor_parallel_divides,
    sequence_parallel_has_ranks,
    sequence_divides,
    layers_fill_stages,
    point_to_point_fits_schedule,
)
