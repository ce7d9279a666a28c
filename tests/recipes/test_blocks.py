"""Which block is of which kind, and which model chunk holds it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.recipes import ConfigError
from trainwright.recipes.blocks import blocks_per_chunk, expert_blocks, layout_chunks, windowed_blocks
from trainwright.recipes.config.model import ModelConfig


def model(blocks: int = 4, **changes: Any) -> ModelConfig:
    return ModelConfig.model_validate({"num_layers": blocks, "hidden_size": 8, "num_attention_heads": 2} | changes)


@pytest.mark.parametrize(
    ("frequency", "kinds"),
    [(1, [True] * 4), (2, [True, False, True, False]), ([0, 1, 1, 0], [False, True, True, False])],
)
def test_experts_are_in_every_nth_block_from_the_first_on(frequency: Any, kinds: list[bool]) -> None:
    assert expert_blocks(model(num_moe_experts=2, moe_layer_freq=frequency)) == kinds
    assert not any(expert_blocks(model(moe_layer_freq=frequency)))


@pytest.mark.parametrize(
    ("frequency", "kinds"),
    [(None, [True] * 4), (2, [True, False, True, False]), (3, [True, True, False, True]), ([1, 0, 0, 1], None)],
)
def test_every_nth_block_sees_the_whole_sequence(frequency: Any, kinds: list[bool] | None) -> None:
    found = windowed_blocks(model(window_size=[3, 0], window_attn_skip_freq=frequency))
    assert found == (kinds or [True, False, False, True])
    assert not any(windowed_blocks(model(window_attn_skip_freq=frequency)))


STAGES = {"pipeline_model_parallel_size": 4}
FIRST, LAST = "num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage"


@pytest.mark.parametrize(
    ("blocks", "changes", "counts"),
    [
        (8, STAGES, [2, 2, 2, 2]),
        (8, STAGES | {"virtual_pipeline_model_parallel_size": 2}, [1] * 8),
        (7, STAGES | {FIRST: 1}, [1, 2, 2, 2]),
        (92, {"pipeline_model_parallel_size": 8, FIRST: 10, LAST: 10}, [10, 12, 12, 12, 12, 12, 12, 10]),
        (6, {"pipeline_model_parallel_size": 2, FIRST: 4, LAST: 2}, [4, 2]),
        (8, STAGES | {FIRST: 2, "virtual_pipeline_model_parallel_size": 2}, [1] * 8),
        (126, {"pipeline_model_parallel_size": 8, "virtual_pipeline_model_parallel_size": 2}
         | {f"account_for_{end}_in_pipeline_split": True for end in ("embedding", "loss")}, [7, *[8] * 14, 7]),
        (7, STAGES | {"pipeline_model_parallel_layout": "Et|t*2|(t|)*1t*3L"}, [1, 2, 1, 3]),
        (6, STAGES | {"pipeline_model_parallel_layout": "E|t*3,|t*3|L"}, [0, 3, 3, 0]),
        (6, {"pipeline_model_parallel_size": 1, FIRST: 4}, [6]),
    ],
)  # fmt: skip
def test_blocks_are_shared_out(blocks: int, changes: dict[str, Any], counts: list[int]) -> None:
    assert blocks_per_chunk(model(blocks, **changes)) == counts


@pytest.mark.parametrize(
    ("blocks", "changes", "words"),
    [
        (7, STAGES, ("num_layers=7", "4 pipeline stages")),
        (8, STAGES | {FIRST: 1}, ("1 blocks in the first", "7 are left for 3 of 4")),
        (6, {"pipeline_model_parallel_size": 2, FIRST: 4, LAST: 1}, ("1 are left for 0 of 2",)),
        (3, {"pipeline_model_parallel_size": 2, FIRST: 4}, ("-1 are left",)),
        (8, STAGES | {"account_for_loss_in_pipeline_split": True}, ("1 more", "4 model chunks")),
        (4, STAGES | {"pipeline_model_parallel_layout": "Et|t|t|x|tL"}, ("'x' is none of E",)),
        (4, STAGES | {"pipeline_model_parallel_layout": "Et|t|t|L"}, ("it has 3 blocks", "the model has 4")),
        (4, STAGES | {"pipeline_model_parallel_layout": "t|t|t|tL"}, ("E comes first",)),
        (4, STAGES | {"pipeline_model_parallel_layout": "Et*2|t*2L"}, ("2 chunks", "pipeline_model_parallel_size=4")),
        (4, STAGES | {"pipeline_model_parallel_layout": "Et|t|t|tmL"}, ("1 predictions m", "the model has 4 and 0")),
        (4, STAGES | {"pipeline_model_parallel_layout": "Et|t|ttm|L", "mtp_num_layers": 1}, ("last chunk, mL",)),
        (4, STAGES | {"pipeline_model_parallel_layout": "Et*99999999|tL"}, ("is none of E",)),
        (4, STAGES | {"pipeline_model_parallel_layout": ""}, ("it has 0 blocks",)),
        (4, {"num_moe_experts": 2, "moe_layer_freq": [1, 0, 1]}, ("each of the 4 blocks", "3 are given")),
        (4, {"num_moe_experts": 2, "moe_layer_freq": [1, 0, 1, 2]}, ("0 or 1",)),
        (4, {"num_moe_experts": 2, "moe_layer_freq": 0}, ("moe_layer_freq=0", "at least 1")),
        (4, {"window_size": [1, 0], "window_attn_skip_freq": -1}, ("window_attn_skip_freq=-1",)),
    ],
)
def test_what_cannot_be_shared_out_is_refused(blocks: int, changes: dict[str, Any], words: tuple[str, ...]) -> None:
    described = model(blocks, **changes)
    with pytest.raises(ConfigError) as caught:
        expert_blocks(described)
        windowed_blocks(described)
        blocks_per_chunk(described)
    for word in words:
        assert word in str(caught.value)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any), st.integers(0, 2), st.data())
def test_a_layout_says_what_each_chunk_holds(counts: list[int], further: int, data: st.DataObject) -> None:
    """However blocks are written, one by one or repeated, with commas and blanks between."""
    chunks = [f"t*{count}" if count and data.draw(st.booleans()) else "t" * count for count in counts]
    chunks[0] = "E" + chunks[0]
    chunks[-1] += "m" * further + "L"
    layout = data.draw(st.sampled_from(["|", " | ", ",|"])).join(chunks)
    described = model(
        sum(counts),
        pipeline_model_parallel_size=len(counts),
        pipeline_model_parallel_layout=layout,
        mtp_num_layers=further or None,
    )
    assert blocks_per_chunk(described) == counts
    assert layout_chunks(described)[-1].endswith("m" * further + "L")
