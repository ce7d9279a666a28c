"""Adapters by arithmetic: which layers get one, of which parts, and how many parameters they are."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes_runs import refusal, run, says

from trainwright.recipes import ConfigError
from trainwright.recipes.adapters import Part, adapted, adapter, linears, parts_of, stage_adapters, trainable_parameters
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.config.peft import PeftConfig
from trainwright.recipes.library import RECIPES, Recipe

LORA = "llama32_1b_peft_config"
SEPARATE = ["linear_q", "linear_k", "linear_v", "linear_proj", "linear_fc1_gate", "linear_fc1_up", "linear_fc2"]


def model_of(recipe: str) -> ModelConfig:
    return run(recipe=recipe, world_size=None, device="cuda").config.model


def lora(*targets: str, **fields: Any) -> PeftConfig:
    return PeftConfig(target_modules=list(targets), **fields)


def test_counts_are_those_that_peft_prints_for_llama_3_8b() -> None:
    """Its `print_trainable_parameters`, as published for rank 8 on queries and values and rank 16 on everything."""
    model = model_of("llama3_8b_pretrain_config")
    assert trainable_parameters(model, lora("linear_q", "linear_v", dim=8)) == 3_407_872
    assert trainable_parameters(model, lora(*SEPARATE, dim=16)) == 41_943_040


def test_a_fused_layer_has_one_a_and_its_parts_one_each() -> None:
    """The same rows of B; two A's fewer of queries, keys and values, one of gate and up."""
    model = model_of(LORA)
    fused = trainable_parameters(model, lora("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2", dim=8))
    separate = trainable_parameters(model, lora(*SEPARATE, dim=8))
    assert separate - fused == model.num_layers * 3 * 8 * model.hidden_size


def test_dora_adds_a_length_for_every_row() -> None:
    model = model_of(LORA)
    rows = sum(linear.rows for linear in linears(model))
    both = [
        trainable_parameters(model, lora("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2", scheme=scheme))
        for scheme in ("lora", "dora")
    ]
    assert both[1] - both[0] == rows


def test_every_expert_has_an_adapter_and_shared_ones_have_theirs() -> None:
    model = model_of("moonlight_16b_pretrain_config")
    found = {one.linear.path: one.linear.experts for one in adapted(model, lora("linear_fc2"))}
    assert found["decoder.layers.0.mlp.linear_fc2"] is None
    assert found["decoder.layers.1.mlp.experts.linear_fc2"] == 64
    assert found["decoder.layers.1.mlp.shared_experts.linear_fc2"] is None
    of_experts = 26 * 64 * 32 * (1408 + 2048)
    assert trainable_parameters(model, lora("*.mlp.experts.linear_fc2")) == of_experts


def test_latent_attention_has_layers_of_its_own_and_further_predictions_too() -> None:
    names = {linear.name for linear in linears(model_of("deepseek_v3_pretrain_config"))}
    down_and_up = {f"linear_{one}_{way}_proj" for one in ("q", "kv") for way in ("down", "up")}
    assert names == {*down_and_up, "linear_proj", "linear_fc1", "linear_fc2"}
    assert {linear.name for linear in linears(model_of("moonlight_16b_pretrain_config"))} >= {"linear_q_proj"}
    further = [one.linear.path for one in adapted(model_of("glm45_air_106b_pretrain_config"), lora("mtp.*.linear_qkv"))]
    assert further == ["mtp.layers.0.self_attention.linear_qkv"]


@pytest.mark.parametrize(
    ("targets", "paths"),
    [
        (["*.layers.0.*.linear_qkv"], ["decoder.layers.0.self_attention.linear_qkv"]),
        (["decoder.layers.1.mlp.linear_fc2"], ["decoder.layers.1.mlp.linear_fc2"]),
        (["*.layers.1.*"], [f"decoder.layers.1.{name}" for name in ("self_attention.linear_qkv",
            "self_attention.linear_proj", "mlp.linear_fc1", "mlp.linear_fc2")]),
    ],
)  # fmt: skip
def test_a_pattern_is_over_whole_paths_by_block(targets: list[str], paths: list[str]) -> None:
    """And a star in it also stands for dots."""
    assert [one.linear.path for one in adapted(model_of(LORA), lora(*targets))] == paths


def test_an_excluded_layer_or_part_gets_none() -> None:
    model = model_of(LORA)
    without = adapted(model, lora("linear_q", "linear_k", exclude_modules=["linear_k", "*.layers.0.*"]))
    assert {part for one in without for part in one.parts} == {Part("linear_q", 2048)}
    assert len(without) == model.num_layers - 1


def test_parts_come_in_the_order_of_their_rows() -> None:
    """Whatever the order in which they were named."""
    layer = next(linear for linear in linears(model_of(LORA)) if linear.name == "linear_qkv")
    assert [part.name for part in parts_of(layer, lora("linear_v", "linear_q"))] == ["linear_q", "linear_v"]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["peft.target_modules=[linear_qkvv]"], ("'linear_qkvv' matches no layer", "linear_fc2", "'linear_qkv'?")),
        (["peft.target_modules=[q_proj]"], ("q_proj is linear_q here",)),
        (["peft.target_modules=[lm_head]"], ("'lm_head' matches no layer", "it has linear_qkv, linear_q,")),
        (["peft.target_modules=['*.layers.99.*']"], ("matches no layer", "decoder.layers.0.self_attention.linear_qkv")),
        (["peft.exclude_modules=[linear_fc3]"], ("peft.exclude_modules: 'linear_fc3' matches no layer",)),
        (["peft.exclude_modules=['*']"], ("leaves none of peft.target_modules",)),
        (["peft.target_modules=[linear_qkv,linear_q]"], ("'linear_q' means a part of linear_qkv", "linear_v")),
        (["peft.exclude_modules=[linear_k]"], ("peft.exclude_modules: 'linear_k' means a part of linear_qkv",)),
        (["peft.target_modules=[]"], ("peft.target_modules=[]", "at least 1 item")),
    ],
)
def test_targets_that_mean_no_layer_or_one_twice_are_refused(words: list[str], parts: tuple[str, ...]) -> None:
    says(refusal(*words, recipe=LORA), *parts)


def test_a_name_of_peft_is_that_of_the_model_at_hand() -> None:
    """Queries of latent attention have another name than those of grouped ones."""
    says(
        refusal("peft.target_modules=[q_proj]", recipe="moonlight_16b_peft_config", world_size=4, device="cuda"),
        "q_proj is linear_q_proj here",
    )


WITH_ADAPTERS = [recipe for recipe in RECIPES if recipe.task == "peft"]


@pytest.mark.parametrize("recipe", WITH_ADAPTERS, ids=lambda recipe: recipe.name)
def test_each_recipe_trains_a_small_share_of_the_layers_it_names(recipe: Recipe) -> None:
    config = recipe.build()
    resolved = run(recipe=recipe.shown, world_size=None, device="cuda").config
    assert config.peft is not None
    matched = {one.linear.name for one in adapted(resolved.model, config.peft)}
    assert matched == set(config.peft.target_modules)
    weights = sum(one.rows * one.columns * (one.experts or 1) for one in linears(resolved.model))
    assert 0 < trainable_parameters(resolved.model, config.peft) < 0.06 * weights


TOPOLOGY = {
    "tensor_model_parallel_size": st.sampled_from([1, 2, 4]),
    "pipeline_model_parallel_size": st.sampled_from([1, 2]),
    "expert_model_parallel_size": st.sampled_from([1, 2, 4]),
    "expert_tensor_parallel_size": st.sampled_from([1, 2]),
}


@given(st.fixed_dictionaries(TOPOLOGY), st.sampled_from(["lora", "dora"]), st.sampled_from([1, None]))
def test_a_rank_of_each_stage_holds_its_share(topology: dict[str, int], scheme: Any, further: int | None) -> None:
    """Counted layer by layer: of a factor that is split its part, of any other the whole, of experts its own."""
    model = model_of("moonlight_16b_pretrain_config").model_copy(
        update={**topology, "num_layers": 4, "moe_layer_freq": [0, 1, 1, 1], "mtp_num_layers": further}
        | {"pipeline_model_parallel_layout": None, "virtual_pipeline_model_parallel_size": None}
    )
    peft = lora("*", dim=4, scheme=scheme)
    held = 0
    for one in adapted(model, peft):
        linear, a, b = one.linear, 4 * one.linear.columns, 4 * one.linear.rows
        length = linear.rows if scheme == "dora" else 0
        ranks = topology["tensor_model_parallel_size" if linear.experts is None else "expert_tensor_parallel_size"]
        whole, split = {"rows": (a, b + length), "columns": (b + length, a), None: (a + b + length, 0)}[linear.split]
        held += (
            (linear.experts or 1)
            // (topology["expert_model_parallel_size"] if linear.experts else 1)
            * (whole + split // ranks)
        )
    assert sum(count.total for count in stage_adapters(model, peft)) == held


def test_without_splitting_a_layer_s_adapter_is_a_b_and_lengths() -> None:
    (one,) = adapted(model_of(LORA), lora("*.layers.0.*.linear_fc2", dim=8, scheme="dora"))
    assert adapter(one, lora("linear_fc2", dim=8, scheme="dora")).total == 8 * (8192 + 2048) + 2048


def test_a_clash_is_an_error_of_the_configuration() -> None:
    """So that a caller without words gets one line too."""
    with pytest.raises(ConfigError, match="matches no layer"):
        adapted(model_of(LORA), lora("linear_up"))
