"""Attention and rotation of packed rows against one attention over the whole row with a mask made by hand."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from tests.runner.small_models import LLAMA, configuration, start_groups

from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed

BOUNDS = (0, 16, 20, 44, 48, 64)
CASES: dict[str, dict[str, Any]] = {
    "grouped queries": {},
    "one group a head": {"num_query_groups": 8},
    "sliding window": {"window_size": [5, 0]},
    "another scale": {"softmax_scale": 0.7},
}
TOPOLOGIES: dict[int, dict[str, Any]] = {1: {}, 2: {"context_parallel_size": 2}}


def measures(topology: dict[str, Any]) -> dict[str, Any]:
    """Everything of this file on one rank."""
    found: dict[str, Any] = {name: attention(topology | changes) for name, changes in CASES.items()}
    return found | {"rotation": rotation(topology), "dropout": dropout(topology)}


@pytest.fixture(scope="module", params=TOPOLOGIES, ids=["one rank", "context parallel"])
def ranks(request) -> list[dict[str, Any]]:
    return run_ranks(measures, request.param, TOPOLOGIES[request.param])


def packed_parameters() -> Any:
    from megatron.core.packed_seq_params import PackedSeqParams

    bounds = torch.tensor(BOUNDS, dtype=torch.int32)
    return PackedSeqParams(
        qkv_format="thd", cu_seqlens_q=bounds, cu_seqlens_kv=bounds, max_seqlen_q=24, max_seqlen_kv=24
    )


def build(changes: dict[str, Any]) -> Any:
    from megatron.core import parallel_state
    from megatron.core.transformer.enums import AttnMaskType

    from trainwright.runner.models.attention import SdpaAttention
    from trainwright.runner.models.transformer_config import transformer_config

    parallel_state.destroy_model_parallel()
    config = configuration(LLAMA | changes)
    start_groups(config)
    megatron_config = transformer_config(config)
    return SdpaAttention(
        megatron_config, 1, AttnMaskType.causal, softmax_scale=megatron_config.softmax_scale
    ), megatron_config


def held() -> torch.Tensor:
    """Places of the row that this rank holds, by the rule as it is said: pieces r and 2C - 1 - r of each sequence."""
    from megatron.core import parallel_state

    rank, ranks = parallel_state.get_context_parallel_rank(), parallel_state.get_context_parallel_world_size()
    if ranks == 1:
        return torch.arange(BOUNDS[-1])
    pieces = []
    for begin, end in pairwise(BOUNDS):
        of_this = torch.arange(begin, end).chunk(2 * ranks)
        pieces += [of_this[rank], of_this[2 * ranks - 1 - rank]]
    return torch.cat(pieces)


def attention(changes: dict[str, Any]) -> tuple[float, float, float]:
    """Largest difference of outputs and of gradients, and the largest output."""
    module, config = build({"attention_dropout": 0.0} | changes)
    torch.manual_seed(0)
    groups = config.num_query_groups
    whole = [torch.randn(BOUNDS[-1], heads, 8, requires_grad=True) for heads in (8, groups, groups)]
    direction = torch.randn(BOUNDS[-1], 64)
    place = torch.arange(BOUNDS[-1])
    sequence = torch.bucketize(place, torch.tensor(BOUNDS[1:]), right=True)
    distance = place[:, None] - place[None, :]
    window = changes.get("window_size", [BOUNDS[-1], 0])[0]
    mask = (sequence[:, None] == sequence[None, :]) & (distance >= 0) & (distance <= window)
    query, key, value = (x.transpose(0, 1)[None] for x in whole)
    wanted = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, enable_gqa=True, scale=config.softmax_scale
    )
    wanted = wanted[0].transpose(0, 1).flatten(1)
    wanted.backward(direction)
    parts = [x.detach()[held()].clone().requires_grad_() for x in whole]
    ours = module(*parts, packed_seq_params=packed_parameters())
    assert ours.shape == (len(held()), 1, 64)
    ours.backward(direction[held()][:, None])
    gradients = max((mine.grad - x.grad[held()]).abs().max().item() for mine, x in zip(parts, whole, strict=True))
    return (ours[:, 0] - wanted[held()]).abs().max().item(), gradients, wanted.abs().max().item()


@pytest.mark.parametrize("case", CASES)
def test_packed_attention_equals_attention_with_a_block_mask(ranks, case):
    for rank in ranks:
        output, gradients, largest = rank[case]
        assert largest > 1
        assert output < 5e-6
        assert gradients < 2e-5


def rotation(topology: dict[str, Any]) -> tuple[float, float, float]:
    """Largest difference to turning each sequence alone, of outputs and gradients, and the largest turn."""
    from megatron.core import parallel_state
    from megatron.core.models.common.embeddings.rope_utils import apply_rotary_pos_emb
    from megatron.core.models.common.embeddings.rotary_pos_embedding import RotaryEmbedding

    _, config = build(topology)
    angles = RotaryEmbedding(8, 1.0, cp_group=parallel_state.get_context_parallel_group())(24, packed_seq=True)
    torch.manual_seed(1)
    whole, direction = torch.randn(BOUNDS[-1], 8, 8), torch.randn(BOUNDS[-1], 8, 8)
    x = whole[held()].clone().requires_grad_()
    ours = apply_rotary_pos_emb(x, angles, config, cu_seqlens=torch.tensor(BOUNDS, dtype=torch.int32))
    ours.backward(direction[held()])
    alone, gradient = torch.empty_like(whole), torch.empty_like(whole)
    for begin, end in pairwise(BOUNDS):
        turn = angles[: end - begin, 0]
        for source, target, sign in ((whole, alone, 1), (direction, gradient, -1)):
            first, second = source[begin:end].chunk(2, dim=-1)
            turned = torch.cat([-second, first], dim=-1)
            target[begin:end] = source[begin:end] * turn.cos() + sign * turned * turn.sin()
    return (
        (ours - alone[held()]).abs().max().item(),
        (x.grad - gradient[held()]).abs().max().item(),
        (alone - whole).abs().max().item(),
    )


def test_each_sequence_of_a_row_is_turned_from_its_own_beginning(ranks):
    for rank in ranks:
        output, gradients, largest = rank["rotation"]
        assert largest > 1
        assert output < 1e-6
        assert gradients < 1e-6


def dropout(topology: dict[str, Any]) -> dict[str, bool]:
    """What a changed second sequence and another seed do to the output under dropout."""
    module, _ = build({"attention_dropout": 0.3} | topology)
    rows = held()
    torch.manual_seed(0)
    whole = [torch.randn(BOUNDS[-1], heads, 8) for heads in (8, 2, 2)]
    changed = [x.clone() for x in whole]
    for x in changed:
        x[BOUNDS[1] : BOUNDS[2]] += 1
    second = (rows >= BOUNDS[1]) & (rows < BOUNDS[2])

    def run(inputs: list[torch.Tensor]) -> torch.Tensor:
        from megatron.core import tensor_parallel

        tensor_parallel.model_parallel_cuda_manual_seed(7)
        outer = torch.get_rng_state()
        output = module(*(x[rows] for x in inputs), packed_seq_params=packed_parameters())[:, 0]
        stays.append(torch.equal(outer, torch.get_rng_state()))
        return output

    stays: list[bool] = []
    first, again, other = run(whole), run(whole), run(changed)
    module.eval()
    return {
        "the same seed repeats itself": torch.equal(first, again),
        "it does drop": not torch.allclose(first, run(whole)),
        "the others stay": torch.equal(first[~second], other[~second]),
        "the second moves": not torch.allclose(first[second], other[second]),
        "the outer stream stays": all(stays),
    }


def test_dropout_of_a_sequence_does_not_depend_on_the_others(ranks):
    for rank in ranks:
        assert all(rank["dropout"].values()), rank["dropout"]


def refusals() -> list[str]:
    """Messages for rows that cannot be attended."""
    module, _ = build({})
    x = torch.ones(BOUNDS[-1] + 4, 8, 8)
    with pytest.raises(ValueError) as too_long:
        module(x, x, x, packed_seq_params=packed_parameters())
    from trainwright.runner.layout import held_places

    with pytest.raises(ValueError) as uneven:
        held_places((0, 8, 14), 0, 2)
    return [str(too_long.value), str(uneven.value)]


def test_a_row_whose_bounds_do_not_fit_is_refused():
    too_long, uneven = run_ranks(refusals, 1)[0]
    assert "68 tokens" in too_long and "64" in too_long
    assert "6 tokens" in uneven and "2 * 2" in uneven
