"""Packed and padded rows of the same sequences: the same loss and gradients, and no sequence that sees another."""

from typing import Any

import pytest
import torch
from tests.runner.packed_rows import ALIGNMENT, LENGTHS, ROW, packed, padded, sequences
from tests.runner.small_models import GPT, LLAMA, VOCABULARY, configuration, start_groups

from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed

GATE = 1e-5
PADDED_LENGTH = 24
TP2 = {"tensor_model_parallel_size": 2, "sequence_parallel": True}
CP2 = {"context_parallel_size": 2}
PP2 = {"pipeline_model_parallel_size": 2}
INTERLEAVED = PP2 | {"virtual_pipeline_model_parallel_size": 2, "overlap_p2p_comm": True, "batch_p2p_comm": False}
PER_TOKEN = {"calculate_per_token_loss": True}
CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "one rank": (1, LLAMA),
    "one rank, learned positions": (1, GPT),
    "one rank, window": (1, LLAMA | {"window_size": [5, 0]}),
    "one rank, recomputed": (
        1,
        LLAMA | {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1},
    ),
    "one rank, attention recomputed": (1, LLAMA | {"recompute_granularity": "selective"}),
    "TP2+SP": (2, LLAMA | TP2),
    "CP2": (2, LLAMA | CP2),
    "PP2, rows of one length": (2, LLAMA | PP2),
    "PP2, rows of any length": (2, LLAMA | PP2 | {"variable_seq_lengths": True}),
    "PP2 VP2, rows of any length": (2, LLAMA | INTERLEAVED | {"variable_seq_lengths": True}),
}


def on_ranks(names: list[str]) -> dict[str, Any]:
    """Every measurement of the named cases on this rank."""
    from megatron.core import parallel_state

    found = {}
    for name in names:
        found[name] = compare(CASES[name][1])
        parallel_state.destroy_model_parallel()
    for name in ("one rank", "TP2+SP", "CP2"):
        if name in names:
            found[f"perturbed, {name}"] = perturb(CASES[name][1])
            parallel_state.destroy_model_parallel()
    return found


@pytest.fixture(scope="module")
def found() -> dict[str, list[dict[str, Any]]]:
    by_ranks = {}
    for count in (1, 2):
        names = [name for name, (ranks, _) in CASES.items() if ranks == count]
        results = run_ranks(on_ranks, count, names)
        by_ranks |= {name: [rank[name] for rank in results] for name in results[0]}
    return by_ranks


def build(model: dict[str, Any]) -> tuple[list[Any], Any]:
    from tests.runner.megatron_training import build as build_chunks

    config = configuration(model | PER_TOKEN, ddp={"average_in_collective": False})
    start_groups(config)
    chunks, optimizer, _ = build_chunks(config, VOCABULARY)
    return chunks, optimizer


def backward(chunks: list[Any], optimizer: Any, rows: list[dict[str, torch.Tensor]]) -> tuple[float, torch.Tensor]:
    """Mean token loss over the micro-batches, from the ranks that know it, and all gradients of this rank."""
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from tests.runner.megatron_training import gradients

    from trainwright.runner.batches import for_each_chunk, forward_step, microbatches

    for chunk in chunks:
        chunk.zero_grad_buffer()
    optimizer.zero_grad()
    losses = get_forward_backward_func()(
        forward_step_func=forward_step,
        data_iterator=for_each_chunk(microbatches(iter(rows), torch.device("cpu")), len(chunks)),
        model=chunks if len(chunks) > 1 else chunks[0],
        num_microbatches=len(rows),
        seq_length=rows[0]["tokens"].size(1),
        micro_batch_size=len(rows[0]["tokens"]),
        forward_only=False,
    )
    totals = torch.stack(losses).double().sum(dim=0) if losses else torch.zeros(4, dtype=torch.float64)
    if losses:
        from megatron.core import parallel_state

        torch.distributed.all_reduce(totals, group=parallel_state.get_context_parallel_group())
    return (totals[0] / totals[1]).item() if losses else 0.0, gradients(chunks).clone()


def compare(model: dict[str, Any]) -> tuple[float, float, float]:
    """The padded loss, by how much the packed one differs, and by how much gradients do relative to their norm."""
    chunks, optimizer = build(model)
    first, second = sequences(VOCABULARY), sequences(VOCABULARY, (9, 20, 5))
    every = first + second
    pairs = [padded(every[at : at + 2], PADDED_LENGTH) for at in range(0, len(every), 2)]
    loss, gradient = backward(chunks, optimizer, pairs)
    rows = [packed(first, ROW), packed(second, 40 if model.get("variable_seq_lengths") else ROW)]
    packed_loss, packed_gradient = backward(chunks, optimizer, rows)
    return loss, abs(packed_loss - loss), float((packed_gradient - gradient).norm() / gradient.norm())


@pytest.mark.parametrize("case", CASES)
def test_packed_rows_give_the_loss_and_gradients_of_padded_ones(found, case):
    assert max(rank[0] for rank in found[case]) > 4  # the last stage knows the loss
    for loss, difference, gradients in found[case]:
        assert difference <= GATE * max(loss, 1)
        assert gradients < GATE


def perturb(model: dict[str, Any]) -> dict[str, float]:
    """Largest change of token losses when the second sequence gets other tokens: in it, and outside of it.

    "unbounded" is outside of it where the row is told to be one sequence, which attention then may look all over.
    """
    from megatron.core import parallel_state

    from trainwright.runner.batches import forward_step, slice_for_context_parallel

    (chunk,), _ = build(model)
    chunk.eval()
    begin = -(-LENGTHS[0] // ALIGNMENT) * ALIGNMENT
    end = begin + LENGTHS[1]
    rank, ranks = parallel_state.get_context_parallel_rank(), parallel_state.get_context_parallel_world_size()
    row = packed(sequences(VOCABULARY))
    other = row | {"tokens": row["tokens"].clone()}
    other["tokens"][0, begin:end] = (other["tokens"][0, begin:end] + 17) % VOCABULARY
    place = {"tokens": torch.arange(ROW)[None], "cu_seqlens": row["cu_seqlens"]}
    one = {"cu_seqlens": torch.tensor([0, ROW], dtype=torch.int32), "max_seqlen": torch.tensor(ROW)}

    def losses(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        with torch.no_grad():
            return forward_step(iter([slice_for_context_parallel(batch, rank, ranks)]), chunk)[0]

    def change(**bounds: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        held = slice_for_context_parallel(place | bounds, rank, ranks)["tokens"]
        inside = (held >= begin) & (held < end)
        moved = (losses(other | bounds) - losses(row | bounds)).abs()
        return moved[inside].max(), moved[~inside].max()

    inside, outside = change()
    return {"inside": float(inside), "outside": float(outside), "unbounded": float(change(**one)[1])}


@pytest.mark.parametrize("case", ["one rank", "TP2+SP", "CP2"])
def test_other_tokens_in_one_sequence_change_no_loss_of_another(found, case):
    for rank in found[f"perturbed, {case}"]:
        assert rank["outside"] == 0
        assert rank["inside"] > 0.01
        assert rank["unbounded"] > 1e-4  # this would see a leak


def test_a_packed_row_is_the_work_of_its_sequences_and_not_of_one_as_long():
    """Sequences of 12 and 4 are 16 positions and 12^2 + 4^2 pairs; over two context parallel ranks, half of each."""
    from trainwright.runner.batches import work_of

    row = {"tokens": torch.zeros(1, 16), "cu_seqlens": torch.tensor([0, 12, 16], dtype=torch.int32)}
    assert work_of(row, 1).tolist() == [16, 160]
    assert work_of({"tokens": torch.zeros(2, 16)}, 1).tolist() == [32, 512]
    halves = {"tokens": torch.zeros(1, 8), "cu_seqlens": row["cu_seqlens"]}
    assert work_of(halves, 2).tolist() == [8, 80]
    assert work_of({"tokens": torch.zeros(2, 8)}, 2).tolist() == [16, 256]
