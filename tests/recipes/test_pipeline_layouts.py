"""A recipe's way of sharing blocks out between pipeline stages, where a run has other stages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from public import RECIPE_ROWS
from recipes_runs import refusal, run, says

from trainwright.recipes import Selection, resolve
from trainwright.recipes.blocks import layout_chunks, uneven_layout
from trainwright.recipes.config.model import ModelConfig
from trainwright.recipes.library import RECIPES, Recipe

PP, VP = "model.pipeline_model_parallel_size", "model.virtual_pipeline_model_parallel_size"
DEEPSEEK, GLM, LLAMA = "deepseek_v3_pretrain_config", "glm45_355b_pretrain_config", "llama31_405b_pretrain_config"


@pytest.mark.parametrize("recipe", [recipe for recipe in RECIPES if "pretrain" in recipe.name], ids=lambda r: r.name)
def test_typing_the_stages_that_a_recipe_has_changes_nothing(recipe: Recipe) -> None:
    selection = Selection(recipe=recipe.name)
    as_it_is = resolve(selection, [], world_size=None, device="cuda").config
    word = f"{PP}={as_it_is.model.pipeline_model_parallel_size}"
    assert resolve(selection, [word], world_size=None, device="cuda").config == as_it_is


def test_deepseek_on_eight_stages_has_the_layout_of_the_public_recipe_for_them() -> None:
    found = run(f"{PP}=8", recipe=DEEPSEEK, world_size=1024, device="cuda").config.model
    public = RECIPE_ROWS["deepseek_v3_pretrain_256gpu_h100_bf16_32nodes_config"]
    assert found.pipeline_model_parallel_layout == public["pipeline_layout"]


@pytest.mark.parametrize(
    ("recipe", "words", "world_size", "layout", "ends", "counted"),
    [
        (DEEPSEEK, (f"{PP}=1",), 64, None, None, False),
        (DEEPSEEK, (f"{PP}=2",), 128, "Et*31|t*30mL", None, False),
        (DEEPSEEK, (f"{PP}=4", "model.mtp_num_layers=null"), 256, "Et*16|t*16|t*16|t*13L", None, False),
        (DEEPSEEK, (f"{PP}=2", "model.num_layers=8"), 128, None, None, False),
        (DEEPSEEK, (f"{PP}=2", "model.num_layers=5"), 128, "Et*3|t*2mL", None, False),
        (GLM, (f"{PP}=4",), 64, None, None, False),
        (GLM, ("model.num_layers=90",), 128, "Et*12|" + "t*12|" * 6 + "t*6mL", None, False),
        (LLAMA, (f"{PP}=16",), 512, None, None, True),
        (LLAMA, (f"{PP}=2", f"{VP}=null"), 64, None, None, True),
        (LLAMA, (f"{PP}=2", f"{VP}=null", "model.num_layers=3"), 64, "Et*2|tL", None, False),
    ],
)
def test_other_stages_have_their_own_way(
    recipe: str, words: tuple[str, ...], world_size: int, layout: str | None, ends: int | None, counted: bool
) -> None:
    found = run(*words, recipe=recipe, world_size=world_size, device="cuda").config.model
    assert found.pipeline_model_parallel_layout == layout
    assert found.num_layers_in_first_pipeline_stage == ends
    assert found.account_for_loss_in_pipeline_split == counted


def test_what_was_typed_of_the_layout_stays() -> None:
    words = (f"{PP}=2", "model.num_layers_in_last_pipeline_stage=11", "model.pipeline_model_parallel_layout=null")
    found = run(*words, recipe=DEEPSEEK, world_size=128, device="cuda").config.model
    assert (found.pipeline_model_parallel_layout, found.num_layers_in_last_pipeline_stage) == (None, 11)


def test_more_chunks_than_blocks_can_fill_are_refused() -> None:
    says(refusal(f"{VP}=4", recipe=DEEPSEEK, world_size=1024, device="cuda"), "model.num_layers=61", "16")


@given(blocks=st.integers(1, 130), chunks=st.integers(2, 32), further=st.integers(0, 2))
def test_an_uneven_layout_holds_every_block_once_and_fewest_at_the_end(blocks: int, chunks: int, further: int) -> None:
    layout = uneven_layout(blocks, chunks, further)
    if layout is None:
        assert -(-blocks // chunks) * (chunks - 1) > blocks
        return
    model = ModelConfig(
        num_layers=blocks,
        hidden_size=8,
        num_attention_heads=1,
        mtp_num_layers=further or None,
        pipeline_model_parallel_size=chunks,
        pipeline_model_parallel_layout=layout,
    )
    counts = [chunk.count("t") for chunk in layout_chunks(model)]
    assert sum(counts) == blocks
    assert len(set(counts[:-1])) == 1
    assert counts[-1] <= counts[0]
