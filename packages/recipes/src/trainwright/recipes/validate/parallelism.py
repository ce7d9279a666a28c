"""The grid of ranks against the model and the sequence."""

from trainwright.recipes.blocks import blocks_per_chunk
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
            f"{model.context_parallel_size} parallel{_way_out(plan.world_size < plan.model_ranks)}"
        )


def _way_out(few: bool) -> str:
    """What to do where there are too few ranks for one copy of the model, or one group of experts."""
    if not few:
        return ""
    return "; start as many, choose smaller sizes (-tp, -pp, -cp, -ep), or let run-recipe --rehearse shrink the recipe"


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


LAYOUT = "pipeline_model_parallel_layout"
PER_STAGE = ("num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage")
ACCOUNTED = ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split")


def blocks_fill_stages(plan: Plan) -> None:
    """Every block is in one model chunk, as one of three ways to share blocks out says."""
    model = plan.config.model
    if plan.chunks > 1 and model.pipeline_model_parallel_size == 1:
        raise ConfigError(
            f"model.virtual_pipeline_model_parallel_size={plan.chunks} needs "
            f"model.pipeline_model_parallel_size (-pp) of 2 or more"
        )
    ways = [[name for name in names if getattr(model, name)] for names in ((LAYOUT,), PER_STAGE, ACCOUNTED)]
    if len(given := [names[0] for names in ways if names]) > 1:
        raise ConfigError(f"model.{given[0]} and model.{given[1]} exclude each other: each says how blocks are shared")
    counts = blocks_per_chunk(model)
    chunks = model.pipeline_model_parallel_size * plan.chunks
    if len(counts) != chunks:
        raise ConfigError(
            f"model.{LAYOUT} has {len(counts)} chunks, not {chunks} = {model.pipeline_model_parallel_size} stages x "
            f"{plan.chunks} (model.virtual_pipeline_model_parallel_size)"
        )
    if min(counts) < 0:
        raise ConfigError(f"model.num_layers={model.num_layers} leaves a model chunk of {chunks} without a place")


def experts_are_split_evenly(plan: Plan) -> None:
    """Every rank of an expert parallel group holds as many experts, and whole groups fill the ranks of a stage."""
    model = plan.config.model
    experts, tensor = model.expert_model_parallel_size, model.expert_tensor_parallel_size
    if model.num_moe_experts is None:
        for name, size in (("expert_model_parallel_size", experts), ("expert_tensor_parallel_size", tensor or 1)):
            if size > 1:
                raise ConfigError(f"model.{name}={size}: the model is dense, it has no experts to split")
        return
    if model.num_moe_experts % experts:
        raise ConfigError(
            f"model.num_moe_experts={model.num_moe_experts} is not a multiple of "
            f"model.expert_model_parallel_size={experts}"
        )
    tensor = tensor or model.tensor_model_parallel_size
    ranks = plan.world_size // model.pipeline_model_parallel_size
    if ranks % (experts * tensor):
        raise ConfigError(
            f"the {ranks} ranks of a pipeline stage are not a multiple of {experts * tensor} = "
            f"model.expert_model_parallel_size={experts} x model.expert_tensor_parallel_size={tensor}"
            f"{_way_out(ranks < experts * tensor)}"
        )
    width = model.moe_ffn_hidden_size or model.ffn_hidden_size or 0
    if width % tensor:
        raise ConfigError(
            f"model.moe_ffn_hidden_size={width} is not a multiple of model.expert_tensor_parallel_size={tensor}"
        )
    shared = model.moe_shared_expert_intermediate_size or 0
    if shared % model.tensor_model_parallel_size:
        raise ConfigError(
            f"model.moe_shared_expert_intermediate_size={shared} is not a multiple of "
            f"{_tp(model.tensor_model_parallel_size)}"
        )


def experts_fit_sequence_parallelism(plan: Plan) -> None:
    """Megatron Core sends tokens to experts from ranks that each hold their own part of the sequence."""
    model = plan.config.model
    if model.num_moe_experts is not None and model.tensor_model_parallel_size > 1 and not model.sequence_parallel:
        raise ConfigError(
            f"experts with {_tp(model.tensor_model_parallel_size)} need model.sequence_parallel=true: without it "
            f"every rank of a tensor parallel group would send the same tokens"
        )


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
    world_is_a_multiple,
    experts_are_split_evenly,
    experts_fit_sequence_parallelism,
    tensor_parallel_divides,
    sequence_parallel_has_ranks,
    sequence_divides,
    blocks_fill_stages,
    point_to_point_fits_schedule,
)
