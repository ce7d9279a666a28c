"""Bytes that a rank sends in an update, against values worked by hand."""

from typing import Any

import pytest
from recipes_runs import LLAMA, run

from trainwright.recipes import Selection, resolve
from trainwright.recipes.communication import stage_communication
from trainwright.recipes.parameters import stage_parameters

HIDDEN, ROW, BLOCKS, VOCABULARY = 2048, 8192, 16, 32_000
MICRO_BATCHES = 8
WHOLE = ROW * HIDDEN * 2
"""Hidden states of a micro-batch of one row, in 16 bits."""
WORDS = ("train.micro_batch_size=1", "train.global_batch_size=8", "model.share_embeddings_and_output_weights=false")


def sent(*words: str, world_size: int = 2, recipe: str = LLAMA) -> list[dict[str, float]]:
    """Bytes by kind, for each pipeline stage, of Llama 3.2 1B (16 blocks of 2048, 8 groups of 64 channels)."""
    resolved = run(*WORDS, *words, recipe=recipe, world_size=world_size, device="cuda")
    return [{one.kind: one.sent for one in stage} for stage in stage_communication(resolved, VOCABULARY)]


def parameters(*words: str) -> int:
    return stage_parameters(run(*WORDS, *words, recipe=LLAMA, device="cuda").config.model, VOCABULARY)[0].total


def test_a_single_rank_sends_nothing() -> None:
    assert sent(world_size=1) == [{}]


def test_tensor_parallel_ranks_reduce_twice_forward_and_twice_backward() -> None:
    """A ring of two sends half of the whole twice for an all-reduce: four of them a block, one for the embedding and
    one for the gradient of what goes into the output layer."""
    (found,) = sent("model.tensor_model_parallel_size=2", "model.sequence_parallel=false")
    assert found == {"tensor parallel": (4 * BLOCKS + 2) * WHOLE * MICRO_BATCHES}


def test_sequence_parallel_ranks_gather_once_more_for_gradients_of_weights() -> None:
    """Ten gathers or scatters of half of the whole a block, two for the embedding, three for the output layer."""
    (found,) = sent("model.tensor_model_parallel_size=2", "model.sequence_parallel=true")
    assert found == {"tensor parallel": (10 * BLOCKS + 5) / 2 * WHOLE * MICRO_BATCHES}


def test_recomputed_blocks_communicate_forward_twice() -> None:
    words = ("model.recompute_granularity=full", "model.recompute_method=uniform", "model.recompute_num_layers=1")
    (found,) = sent("model.tensor_model_parallel_size=2", "model.sequence_parallel=true", *words)
    assert found == {"tensor parallel": (14 * BLOCKS + 5) / 2 * WHOLE * MICRO_BATCHES}


def test_pipeline_stages_send_hidden_states_on_and_gradients_back() -> None:
    first, middle, *_, last = sent("model.pipeline_model_parallel_size=4", world_size=4)
    one = WHOLE * MICRO_BATCHES
    assert (first["pipeline"], middle["pipeline"], last["pipeline"]) == (one, 2 * one, one)


def test_an_interleaved_stage_sends_for_each_of_its_chunks() -> None:
    words = ("model.pipeline_model_parallel_size=4", "model.virtual_pipeline_model_parallel_size=2")
    first, middle, *_, last = sent(*words, world_size=4)
    one = WHOLE * MICRO_BATCHES
    assert (first["pipeline"], middle["pipeline"], last["pipeline"]) == (3 * one, 4 * one, 3 * one)


@pytest.mark.parametrize(("split", "bytes_each"), [("true", 4 + 2), ("false", 2 * 4)])
def test_data_parallel_ranks_reduce_gradients_and_gather_weights(split: str, bytes_each: int) -> None:
    """Of 32 and 16 bits; without the distributed optimizer an all-reduce of gradients."""
    words = (f"optimizer.use_distributed_optimizer={split}", "ddp.grad_reduce_in_fp32=true")
    (found,) = sent(*words, world_size=4)
    assert found == {"data parallel": 3 / 4 * bytes_each * parameters()}


@pytest.mark.parametrize(
    ("words", "bytes_sent"),
    [
        # Keys and values of the other rank forward, once more and their gradients backward.
        ((), 3 * 2 * 8 * 64 * 2 * ROW / 2),
        # Queries, keys, values and the output: half of each, forward and backward.
        (("model.cp_comm_type=a2a",), 2 * (2 * 8 + 2 * 32) * 64 * 2 * ROW / 2 / 2),
    ],
)
def test_context_parallel_ranks_exchange_keys_and_values(words: tuple[str, ...], bytes_sent: float) -> None:
    (found,) = sent("model.context_parallel_size=2", *words)
    assert found["context parallel"] == bytes_sent * BLOCKS * MICRO_BATCHES


def experts(dispatcher: str) -> float:
    words = (f"model.moe_token_dispatcher_type={dispatcher}", "train.micro_batch_size=1", "train.global_batch_size=16")
    resolved = resolve(
        Selection(recipe="qwen3_30b_a3b_pretrain_config"),
        ["model.vocab_size=32000", "model.expert_model_parallel_size=8", *words, *TOGETHER],
        world_size=8,
        device="cuda",
    )
    (found,) = stage_communication(resolved, VOCABULARY)
    return next(one.sent for one in found if one.kind == "expert parallel")


TOGETHER = (
    "model.tensor_model_parallel_size=1",
    "model.pipeline_model_parallel_size=1",
    "model.virtual_pipeline_model_parallel_size=null",
    "model.sequence_parallel=false",
    "model.recompute_granularity=null",
)


def test_tokens_go_to_experts_and_come_back() -> None:
    """Of 48 blocks and 2 micro-batches, forward and backward: each of the 8 copies of a token once, 7 of 8 of them
    elsewhere; DeepEP sends one to each rank that has any of its experts, of which there are 8 * (1 - C(112, 8) /
    C(128, 8)) = 5.339 on average; an all-gather all tokens of 7 others."""
    token = 4096 * 2048 * 2 * 48 * 2 * 4
    assert experts("alltoall") == pytest.approx(8 * 7 / 8 * token)
    assert experts("flex") == pytest.approx(5.339 * 7 / 8 * token, rel=1e-3)
    assert experts("allgather") == pytest.approx(7 * token)


def test_adapters_reduce_their_own_gradients_alone() -> None:
    name: Any = "llama3_70b_peft_8gpu_b300_bf16_config"
    resolved = resolve(Selection(recipe=name), [], world_size=None, device="cuda")
    (found,) = stage_communication(resolved, VOCABULARY)
    (traffic,) = found
    assert (traffic.kind, traffic.ranks) == ("data parallel", 8)
    assert traffic.sent < 2**27
