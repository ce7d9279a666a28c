"""A mixture of experts: its router and what stands beside it."""

from trainwright.recipes.blocks import expert_blocks
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.validate.plan import Plan


def experts_are_somewhere(plan: Plan) -> None:
    """Some block has the experts that the model is said to have."""
    model = plan.config.model
    if model.num_moe_experts is not None and not any(expert_blocks(model)):
        raise ConfigError("model.moe_layer_freq gives no block the experts of model.num_moe_experts")


def router_can_choose(plan: Plan) -> None:
    """A token gets as many experts as it asks for, with weights that it can learn."""
    model = plan.config.model
    experts, chosen = model.num_moe_experts, model.moe_router_topk
    if experts is None:
        return
    if chosen > experts:
        raise ConfigError(f"model.moe_router_topk={chosen} is more than model.num_moe_experts={experts}")
    softmax = model.moe_router_score_function == "softmax"
    if chosen == 1 and softmax and not model.moe_router_pre_softmax:
        raise ConfigError(
            "model.moe_router_topk=1: a softmax over one chosen expert is always 1 and teaches the router nothing; "
            "set model.moe_router_pre_softmax=true"
        )
    if model.moe_router_enable_expert_bias and softmax:
        raise ConfigError("model.moe_router_enable_expert_bias=true needs model.moe_router_score_function=sigmoid")
    _groups_can_be_chosen(model, experts)


def _groups_can_be_chosen(model: ModelConfig, experts: int) -> None:
    groups, chosen = model.moe_router_num_groups, model.moe_router_group_topk
    if (groups is None) != (chosen is None):
        raise ConfigError("model.moe_router_num_groups and model.moe_router_group_topk go together; set both or none")
    if groups is None or chosen is None:
        return
    if experts % groups:
        raise ConfigError(f"model.num_moe_experts={experts} is not a multiple of model.moe_router_num_groups={groups}")
    if chosen > groups:
        raise ConfigError(f"model.moe_router_group_topk={chosen} is more than model.moe_router_num_groups={groups}")
    if model.moe_router_topk % chosen:
        # Megatron Core ranks groups by the sum of their best moe_router_topk / moe_router_group_topk experts.
        raise ConfigError(
            f"model.moe_router_topk={model.moe_router_topk} is not a multiple of model.moe_router_group_topk={chosen}"
        )
    if chosen * (experts // groups) < model.moe_router_topk:
        raise ConfigError(
            f"model.moe_router_topk={model.moe_router_topk} is more than the {chosen * (experts // groups)} experts of "
            f"model.moe_router_group_topk={chosen} groups"
        )


def biases_have_their_place(plan: Plan) -> None:
    """Megatron Core's shared experts have no biases, and its split experts would add theirs once a rank."""
    model = plan.config.model
    if model.num_moe_experts is None or not model.add_bias_linear:
        return
    if model.moe_shared_expert_intermediate_size is not None:
        raise ConfigError("model.moe_shared_expert_intermediate_size: shared experts need model.add_bias_linear=false")
    tensor = model.expert_tensor_parallel_size or model.tensor_model_parallel_size
    if tensor > 1:
        raise ConfigError(
            f"experts with biases (model.add_bias_linear=true) are not split: "
            f"model.expert_tensor_parallel_size={tensor} has to be 1"
        )


def gathered_tokens_are_as_many(plan: Plan) -> None:
    """Ranks that gather each other's tokens have equally many, and rows of text differ in length."""
    model, dataset = plan.config.model, plan.config.dataset
    if model.num_moe_experts is None or model.moe_token_dispatcher_type != "allgather" or not plan.rows:
        return
    group = model.expert_model_parallel_size * (model.expert_tensor_parallel_size or model.tensor_model_parallel_size)
    of_one_row = group <= model.tensor_model_parallel_size * model.context_parallel_size
    padded = dataset.dataset_kwargs.get("pad_to_max_length") or model.pipeline_model_parallel_size > 1
    if not of_one_row and (dataset.enable_in_batch_packing or not padded):
        raise ConfigError(
            "model.moe_token_dispatcher_type=allgather wants equally many tokens on every rank, and rows differ in "
            "length; use alltoall, or pad them: dataset.dataset_kwargs.pad_to_max_length=true, not packed"
        )


RULES = (experts_are_somewhere, router_can_choose, biases_have_their_place, gathered_tokens_are_as_many)
