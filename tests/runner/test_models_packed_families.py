"""Packed rows through each family's attention: no sequence sees another, on one rank and with context parallelism."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from tests.runner.family_reference import MODELS
from tests.runner.small_models import VOCABULARY, configuration, start_groups, tokens

from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed

# Context parallelism does not go with further predictions, see the recipes' rules.
FURTHER = {"deepseek_v3, further predictions": MODELS["deepseek_v3"] | {"mtp_num_layers": 2}}
CASES = {1: MODELS | FURTHER, 2: MODELS}
BOUNDS = (0, 24, 28, 64)


def differences(changes: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """By family, on this rank: largest difference of logits to those of each sequence alone, and the largest logit.

    Of a family with further predictions the states that predict them are compared too.
    """
    cases = CASES[changes["context_parallel_size"]]
    return {name: _difference(model | {"init_method_std": 0.1} | changes) for name, model in cases.items()}


def _difference(model: dict[str, Any]) -> tuple[float, float]:
    from megatron.core import parallel_state

    from trainwright.runner.batches import packed_sequences, slice_for_context_parallel
    from trainwright.runner.models import build_model

    config = configuration(model)
    start_groups(config)
    (built,) = build_model(config, vocab_size=VOCABULARY)
    built.eval()
    further: list[torch.Tensor] = []
    if "mtp_num_layers" in model:
        built.mtp.register_forward_hook(lambda module, inputs, output: further.append(output))
    rank, ranks = parallel_state.get_context_parallel_rank(), parallel_state.get_context_parallel_world_size()
    ids = tokens(batch=1)
    places = torch.cat([torch.arange(end - begin) for begin, end in pairwise(BOUNDS)])[None]

    def logits(ids: torch.Tensor, positions: torch.Tensor, bounds: tuple[int, ...]) -> torch.Tensor:
        row = {"tokens": ids, "positions": positions}
        if len(bounds) > 2:
            row |= {"cu_seqlens": torch.tensor(bounds, dtype=torch.int32), "max_seqlen": torch.tensor(36)}
        held = slice_for_context_parallel(row, rank, ranks)
        found: torch.Tensor = built(
            held["tokens"],
            held["positions"],
            None,
            runtime_gather_output=True,
            packed_seq_params=packed_sequences(held),
        )
        if further:
            depths = further.pop().chunk(1 + model["mtp_num_layers"])[1:]
            found = torch.cat([found, *(depth.transpose(0, 1) for depth in depths)], dim=-1)
        return found

    with torch.no_grad():
        packed = logits(ids, places, BOUNDS)
        alone = [logits(ids[:, begin:end], places[:, begin:end], (0, end - begin)) for begin, end in pairwise(BOUNDS)]
    parallel_state.destroy_model_parallel()
    wanted = torch.cat(alone, dim=1)
    return (packed - wanted).abs().max().item(), wanted.abs().max().item()


@pytest.fixture(scope="module")
def found() -> dict[int, list[dict[str, tuple[float, float]]]]:
    """By context parallel size: what each rank found."""
    return {ranks: run_ranks(differences, ranks, {"context_parallel_size": ranks}) for ranks in CASES}


@pytest.mark.parametrize(("ranks", "case"), [(ranks, case) for ranks, cases in CASES.items() for case in cases])
def test_packed_sequences_have_the_logits_that_each_has_alone(found, ranks, case):
    for rank in found[ranks]:
        difference, largest = rank[case]
        assert largest > 0.1
        assert difference < 1e-5
