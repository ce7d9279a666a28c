"""Adapters: the layers that they are for, what they begin from, and what does not go with them."""

from trainwright.recipes.adapters import adapted
from trainwright.recipes.errors import ConfigError
from trainwright.recipes.parameters import split_of
from trainwright.recipes.validate.plan import Plan


def targets_are_layers(plan: Plan) -> None:
    """Every pattern means a layer of this model, and no layer is meant as a whole and by a part."""
    if plan.config.peft is not None:
        adapted(plan.config.model, plan.config.peft)


def parts_are_whole_on_a_rank(plan: Plan) -> None:
    """Megatron Core cuts queries, keys and values anywhere where there are more ranks than key/value heads."""
    model, peft = plan.config.model, plan.config.peft
    ranks, groups = model.tensor_model_parallel_size, model.num_query_groups or model.num_attention_heads
    if peft is None or ranks <= groups or model.multi_latent_attention:
        return
    parts = {part.name for one in adapted(model, peft) if one.linear.name == "linear_qkv" for part in one.parts}
    if found := sorted(parts - {"linear_qkv"}):
        raise ConfigError(
            f"peft.target_modules: {found[0]} needs a key/value head on every rank, and {groups} of them are on "
            f"model.tensor_model_parallel_size={ranks} ranks; target linear_qkv, or take at most {groups}"
        )


def adapters_are_trained_by_adam(plan: Plan) -> None:
    """Muon orthogonalizes whole weight matrices; the two factors of an adapter are none."""
    optimizer = plan.config.optimizer.optimizer
    if plan.config.peft is not None and optimizer in ("muon", "dist_muon"):
        raise ConfigError(
            f"optimizer.optimizer={optimizer} is for whole weight matrices, and --mode {plan.config.peft.scheme} "
            f"trains factors of them; use optimizer.optimizer=adam"
        )


def frozen_matrices_are_not_clipped(plan: Plan) -> None:
    """Clipping attention's logits scales the matrices of queries and keys, which adapters leave as they are."""
    if plan.config.peft is not None and (plan.config.model.model_extra or {}).get("qk_clip"):
        raise ConfigError(
            f"model.qk_clip=true scales weights, which --mode {plan.config.peft.scheme} keeps as they are; leave it out"
        )


def dropout_has_a_place(plan: Plan) -> None:
    """A place of dropout that was typed has some dropout."""
    peft, draft = plan.config.peft, plan.draft
    if peft is not None and draft.typed("peft.dropout_position") and peft.dropout == 0:
        draft.warn("peft.dropout_position has no effect without peft.dropout above 0")


def dropout_knows_the_ranks_of_an_expert(plan: Plan) -> None:
    """Ranks that share an expert have random numbers of their own, and would drop other inputs of the same tokens."""
    peft, model = plan.config.peft, plan.config.model
    if peft is None or peft.dropout == 0 or split_of(model).expert_tensor == 1:
        return
    experts = next((one.linear for one in adapted(model, peft) if one.linear.experts is not None), None)
    if experts is not None:
        raise ConfigError(
            f"peft.dropout={peft.dropout} on {experts.path}: experts that are split between "
            f"{split_of(model).expert_tensor} ranks take none; use model.expert_tensor_parallel_size=1, or "
            "peft.exclude_modules=['*.experts.*']"
        )


def initial_adapter_decides(plan: Plan) -> None:
    """An adapter that a run starts from has its own A: the way to make one has nothing to do."""
    peft, draft = plan.config.peft, plan.draft
    if peft is not None and peft.initial_adapter is not None and draft.typed("peft.lora_A_init_method"):
        draft.warn("peft.lora_A_init_method has no effect with peft.initial_adapter, which brings its own A")


RULES = (
    targets_are_layers,
    parts_are_whole_on_a_rank,
    adapters_are_trained_by_adam,
    frozen_matrices_are_not_clipped,
    dropout_has_a_place,
    dropout_knows_the_ranks_of_an_expert,
    initial_adapter_decides,
)
