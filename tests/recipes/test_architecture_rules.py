"""Architectures that cannot be: each is refused in one line that names the field, the value and what is allowed."""

from typing import Any

import pytest
from tests.recipes import recipes_runs
from tests.recipes.recipes_runs import says

from trainwright.recipes import ResolvedRun

SHORT = {
    "tp": "model.tensor_model_parallel_size",
    "pp": "model.pipeline_model_parallel_size",
    "cp": "model.context_parallel_size",
    "ep": "model.expert_model_parallel_size",
    "sp": "model.sequence_parallel",
    "gb": "train.global_batch_size",
}


def spelled(words: tuple[str, ...]) -> list[str]:
    """`tp=2` and the like as whole words."""
    parts = (word.partition("=") for word in words)
    return [f"{SHORT.get(key, key)}={value}" for key, _, value in parts]


def run(*words: str, **options: Any) -> ResolvedRun:
    return recipes_runs.run(*spelled(words), **options)


def refusal(*words: str, **options: Any) -> str:
    return recipes_runs.refusal(*spelled(words), **options)


EXPERTS = "model.num_moe_experts=8 model.add_bias_linear=false"
SIGMOID = f"{EXPERTS} model.moe_router_score_function=sigmoid"
LATENT = (
    "model.multi_latent_attention=true model.position_embedding_type=rope model.kv_channels=null "
    "model.kv_lora_rank=16 model.qk_head_dim=16 model.qk_pos_emb_head_dim=8 model.v_head_dim=16"
)
YARN = "model.position_embedding_type=yarn"


@pytest.mark.parametrize(
    ("words", "ranks", "parts"),
    [
        (f"{EXPERTS} model.moe_layer_freq=[{','.join('0' * 12)}]", 1, ("model.moe_layer_freq", "no block")),
        (f"{EXPERTS} model.moe_router_topk=9", 1, ("moe_router_topk=9", "num_moe_experts=8")),
        (f"{EXPERTS} model.moe_router_topk=1", 1, ("moe_router_topk=1", "moe_router_pre_softmax=true")),
        (f"{EXPERTS} model.moe_router_enable_expert_bias=true", 1, ("enable_expert_bias", "score_function=sigmoid")),
        (f"{EXPERTS} model.moe_router_num_groups=2", 1, ("moe_router_group_topk", "set both or none")),
        (
            f"{SIGMOID} model.moe_router_num_groups=3 model.moe_router_group_topk=1",
            1,
            ("num_moe_experts=8", "groups=3"),
        ),
        (f"{SIGMOID} model.moe_router_num_groups=2 model.moe_router_group_topk=4", 1, ("group_topk=4", "num_groups=2")),
        (
            f"{SIGMOID} model.moe_router_num_groups=4 model.moe_router_group_topk=2 model.moe_router_topk=3",
            1,
            ("moe_router_topk=3", "group_topk=2"),
        ),
        (
            f"{SIGMOID} model.moe_router_num_groups=4 model.moe_router_group_topk=1 model.moe_router_topk=3",
            1,
            ("moe_router_topk=3", "the 2 experts"),
        ),
        ("model.num_moe_experts=8 model.moe_shared_expert_intermediate_size=8", 1, ("add_bias_linear=false",)),
        ("model.num_moe_experts=8 tp=2 sp=true model.expert_tensor_parallel_size=2", 2, ("biases", "has to be 1")),
        (f"{EXPERTS} tp=2", 2, ("model.tensor_model_parallel_size=2", "model.sequence_parallel=true")),
        (f"{EXPERTS} ep=3", 3, ("num_moe_experts=8", "expert_model_parallel_size=3")),
        (f"{EXPERTS} ep=4", 2, ("the 2 ranks of a pipeline stage", "expert_model_parallel_size=4")),
        (
            f"{EXPERTS} tp=2 sp=true model.moe_ffn_hidden_size=33",
            2,
            ("moe_ffn_hidden_size=33", "expert_tensor_parallel_size=2"),
        ),
        (
            f"{EXPERTS} tp=2 sp=true model.expert_tensor_parallel_size=1 model.moe_shared_expert_intermediate_size=33",
            2,
            ("moe_shared_expert_intermediate_size=33", "tensor_model_parallel_size=2"),
        ),
        ("ep=2", 2, ("expert_model_parallel_size=2", "dense")),
        (LATENT.replace("model.v_head_dim=16", ""), 1, ("multi_latent_attention=true needs model.v_head_dim",)),
        (LATENT.replace("emb_head_dim=8", "emb_head_dim=7"), 1, ("qk_pos_emb_head_dim=7", "pairs")),
        (f"{LATENT} {YARN}", 1, ("position_embedding_type=yarn", "model.rope_type")),
        (f"{LATENT} model.rope_scaling=true", 1, ("model.rope_scaling=true", "false")),
        (f"{LATENT} model.num_query_groups=4", 1, ("model.num_query_groups=4", "takes 12")),
        (f"{LATENT} model.rotary_scaling_factor=4", 1, ("rotary_scaling_factor=4", "model.rope_type=yarn")),
        (f"{LATENT} model.rope_type=yarn model.beta_fast=1 model.beta_slow=2", 1, ("beta_fast=1", "beta_slow=2")),
        (f"{LATENT} tp=2", 2, ("tensor_model_parallel_size=2", "model.sequence_parallel=true")),
        (f"{YARN} model.rotary_percent=0.5", 1, ("rotary_percent=0.5", "yarn")),
        (f"{YARN} model.rope_scaling=true", 1, ("model.rope_scaling=true",)),
        (f"{YARN} model.yarn_beta_fast=1 model.yarn_beta_slow=2", 1, ("yarn_beta_fast=1", "yarn_beta_slow=2")),
        (f"{YARN} model.yarn_mscale=1", 1, ("yarn_mscale_all_dim", "set both or none")),
        ("model.mtp_num_layers=1 model.window_size=[4,0] model.window_attn_skip_freq=2", 1, ("window_attn_skip_freq",)),
        ("model.mtp_num_layers=1 cp=2", 2, ("context_parallel_size=2", "not available")),
        ("model.mtp_num_layers=1 pp=2", 2, ("share_embeddings_and_output_weights=false",)),
        (
            "pp=2 model.num_layers_in_first_pipeline_stage=4 model.account_for_loss_in_pipeline_split=true",
            2,
            ("num_layers_in_first_pipeline_stage", "account_for_loss", "exclude each other"),
        ),
        (f"{EXPERTS} model.moe_grouped_gemm=true", 1, ("moe_grouped_gemm=true", "GPU")),
        (f"{EXPERTS} model.moe_token_dispatcher_type=flex", 1, ("moe_token_dispatcher_type=flex", "alltoall")),
        (
            "model.recompute_granularity=selective model.recompute_modules=[mla_up_proj]",
            1,
            ("'mla_up_proj'", "core_attn"),
        ),
    ],
)
def test_an_architecture_that_cannot_be_is_refused(words: str, ranks: int, parts: tuple[str, ...]) -> None:
    says(refusal(*words.split(), world_size=ranks), *parts)


def test_a_recipes_choice_of_blocks_follows_their_number() -> None:
    """DeepSeek-V3's three dense blocks come first, however many follow; a list that was typed is the user's."""
    deepseek = {"recipe": "deepseek_v3_pretrain_config", "world_size": 1}
    small = ("model.num_layers=5", "pp=1", "tp=1", "sp=false", "ep=1", "gb=32")
    assert run(*small, **deepseek).config.model.moe_layer_freq == [0, 0, 0, 1, 1]
    says(refusal(*small, "model.moe_layer_freq=[0,1]", **deepseek), "each of the 5 blocks", "2 are given")


def test_a_recipes_layout_is_for_its_own_stages() -> None:
    deepseek = {"recipe": "deepseek_v3_pretrain_config", "device": "cuda"}
    assert run(world_size=1024, **deepseek).config.model.pipeline_model_parallel_layout is not None
    fewer = run("model.num_layers=62", "pp=2", "ep=8", world_size=32, **deepseek)
    assert fewer.config.model.pipeline_model_parallel_layout is None
    assert fewer.sources["model.pipeline_model_parallel_layout"] == "derived"


def test_a_layout_says_how_many_chunks_a_stage_has() -> None:
    found = run("pp=2", "model.pipeline_model_parallel_layout=Et*3|t*3|t*3|t*3L", world_size=2).config.model
    assert found.virtual_pipeline_model_parallel_size == 2


def test_experts_with_biases_are_whole_and_others_split_as_the_rest() -> None:
    words = ("model.num_moe_experts=8", "tp=2", "sp=true")
    assert run(*words, world_size=2).config.model.expert_tensor_parallel_size == 1
    assert run(*words, "model.add_bias_linear=false", world_size=2).config.model.expert_tensor_parallel_size == 2
