"""What two ranks must share and what they must not: random streams, sequences, padding of the vocabulary."""

from typing import Any

import pytest
import torch
from tests.runner.small_models import LLAMA, VOCABULARY, configuration, positions, start_groups, tokens

from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed

TP2: dict[str, Any] = {"tensor_model_parallel_size": 2}
SP = TP2 | {"sequence_parallel": True}
DROPOUT = {"hidden_dropout": 0.3, "attention_dropout": 0.3}


def on_two_ranks() -> dict[str, Any]:
    """Every measurement of this file on this rank."""
    from megatron.core import parallel_state

    measures = {
        "draw, tensor parallel": lambda: draw_inside_the_stack(TP2),
        "draw, sequence parallel": lambda: draw_inside_the_stack(SP),
        "attention, tensor parallel": lambda: attention_dropout(TP2),
        "attention, sequence parallel": lambda: attention_dropout(SP),
        "shared weights, tensor parallel": lambda: gradients_of_shared_weights(TP2),
        "shared weights, sequence parallel": lambda: gradients_of_shared_weights(SP),
        "context parallel": lambda: context_parallel_attention({}),
        "context parallel, window": lambda: context_parallel_attention({"window_size": [20, 0]}),
        "padding, one rank": lambda: loss_of_a_padded_vocabulary({}),
        "padding, two ranks": lambda: loss_of_a_padded_vocabulary(TP2),
    }
    found = {}
    for name, measure in measures.items():
        found[name] = measure()
        parallel_state.destroy_model_parallel()
    return found


@pytest.fixture(scope="module")
def ranks() -> list[dict[str, Any]]:
    return run_ranks(on_two_ranks, 2)


def build(changes: dict[str, Any]) -> Any:
    from trainwright.runner.models import build_model

    config = configuration(LLAMA | changes)
    start_groups(config)
    return build_model(config, vocab_size=VOCABULARY)[0]


def draw_inside_the_stack(topology: dict[str, Any]) -> float:
    """A random number drawn where the first layer would draw its dropout."""
    model = build(DROPOUT | topology)
    drawn: list[float] = []
    model.decoder.layers[0].register_forward_pre_hook(lambda *_: drawn.append(torch.rand(()).item()))
    ids = tokens()
    model(ids, positions(ids), None)
    return drawn[0]


def test_tensor_parallel_ranks_draw_the_same_for_what_both_hold(ranks):
    name = "draw, tensor parallel"
    assert ranks[0][name] == ranks[1][name]


def test_sequence_parallel_ranks_draw_differently_for_their_parts_of_the_sequence(ranks):
    name = "draw, sequence parallel"
    assert ranks[0][name] != ranks[1][name]


def attention_dropout(topology: dict[str, Any]) -> tuple[list[float], bool]:
    """What attention makes of equal inputs on both ranks, and whether the outer stream stayed where it was."""
    from megatron.core import tensor_parallel

    model = build(DROPOUT | topology)
    attention = model.decoder.layers[0].self_attention.core_attention
    x = torch.ones(16, 1, 4, 8)
    before = torch.get_rng_state()
    if topology.get("sequence_parallel"):  # then the stack around it has switched to this rank's stream
        with tensor_parallel.get_cuda_rng_tracker().fork():
            out = attention(x, x[:, :, :1], x[:, :, :1])
    else:
        out = attention(x, x[:, :, :1], x[:, :, :1])
    return out.flatten().tolist(), torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", ["attention, tensor parallel", "attention, sequence parallel"])
def test_ranks_drop_different_attention_weights_of_their_different_heads(ranks, name):
    (first, outer_kept), (second, _) = (rank[name] for rank in ranks)
    assert first != second
    assert len(set(first)) > 10
    assert outer_kept


def gradients_of_shared_weights(topology: dict[str, Any]) -> list[float]:
    """Gradients of all norms after a step with dropout. Both ranks hold these weights and have to keep them equal."""
    from tests.runner.megatron_training import backward, build

    config = configuration(LLAMA | DROPOUT | topology)
    start_groups(config)
    chunks, optimizer, _ = build(config, VOCABULARY)
    backward(chunks, optimizer, [tokens(length=65)])
    return torch.cat([p.main_grad.flatten() for p in chunks[0].parameters() if p.dim() == 1]).tolist()


@pytest.mark.parametrize("name", ["shared weights, tensor parallel", "shared weights, sequence parallel"])
def test_weights_that_ranks_share_get_the_same_gradients_under_dropout(ranks, name):
    assert ranks[0][name] == ranks[1][name]
    assert len(set(ranks[0][name])) > 500


def context_parallel_attention(changes: dict[str, Any]) -> tuple[float, float]:
    """Largest difference of this rank's output and gradients to its part of attention over the whole sequence."""
    from megatron.core import parallel_state
    from megatron.core.transformer.enums import AttnMaskType

    from trainwright.runner.batches import slice_for_context_parallel
    from trainwright.runner.models.attention import SdpaAttention
    from trainwright.runner.models.transformer_config import transformer_config

    config = configuration(LLAMA | {"context_parallel_size": 2} | changes)
    start_groups(config)
    length, rank = 64, parallel_state.get_context_parallel_rank()

    def part(x: torch.Tensor) -> torch.Tensor:
        return slice_for_context_parallel({"x": x.transpose(0, 1)}, rank, 2)["x"].transpose(0, 1)

    torch.manual_seed(0)
    whole = [torch.randn(length, 2, heads, 8, requires_grad=True) for heads in (8, 2, 2)]
    direction = torch.randn(length, 2, 64)
    distance = torch.arange(length)[:, None] - torch.arange(length)[None, :]
    window = changes.get("window_size", [length, 0])[0]
    query, key, value = (x.permute(1, 2, 0, 3) for x in whole)
    wanted = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=(distance >= 0) & (distance <= window), enable_gqa=True
    )
    wanted = wanted.permute(2, 0, 1, 3).flatten(2)
    wanted.backward(direction)
    parts = [part(x.detach()).clone().requires_grad_() for x in whole]
    ours = SdpaAttention(transformer_config(config), 1, AttnMaskType.causal)(*parts)
    ours.backward(part(direction))
    gradients = max((mine.grad - part(x.grad)).abs().max().item() for mine, x in zip(parts, whole, strict=True))
    return (ours - part(wanted)).abs().max().item(), gradients


@pytest.mark.parametrize("name", ["context parallel", "context parallel, window"])
def test_context_parallel_attention_equals_attention_over_the_whole_sequence(ranks, name):
    for rank in ranks:
        output, gradients = rank[name]
        assert output < 5e-6
        assert gradients < 2e-5


def loss_of_a_padded_vocabulary(topology: dict[str, Any]) -> tuple[int, float, bool]:
    """Rows of the embedding over all ranks, a loss that depends on no random number, and no gradient of padding.

    All weights are one value, so every token that takes part is as likely as any other.
    """
    from megatron.core import parallel_state

    model = build({"make_vocab_size_divisible_by": 67} | topology)
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 0.01)
    ids = tokens()
    losses = model(ids, positions(ids), None, labels=ids)
    losses.mean().backward()
    rows = model.embedding.word_embeddings.weight
    total = rows.size(0) * parallel_state.get_tensor_model_parallel_world_size()
    first = max(0, VOCABULARY - parallel_state.get_tensor_model_parallel_rank() * rows.size(0))
    return total, losses.mean().item(), not rows.grad[first:].any()


def test_the_loss_does_not_see_how_far_the_vocabulary_is_padded(ranks):
    for rank in ranks:
        rows, loss, padding_is_still = rank["padding, one rank"]
        more_rows, same_loss, same_stillness = rank["padding, two ranks"]
        assert (rows, more_rows) == (201, 268)
        assert loss == pytest.approx(torch.tensor(float(VOCABULARY)).log().item(), rel=1e-6)
        assert same_loss == pytest.approx(loss, rel=1e-6)
        assert padding_is_still and same_stillness
