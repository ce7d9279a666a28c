"""Packed rows through each family's attention: no sequence sees another, on one rank and with context parallelism."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from tests.runner.family_reference import MODELS
from tests.runner.small_models import VOCABULARY, configuration, start_groups, tokens

from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed

BOUNDS = (0, 24, 28, 64)


def differences(changes: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """By family, on this rank: largest difference of logits to those of each sequence alone, and the largest logit."""
    return {family: _difference(MODELS[family] | {"init_method_std": 0.1} | changes) for family in MODELS}


def _difference(model: dict[str, Any]) -> tuple[float, float]:
    from megatron.core import parallel_state

    from trainwright.runner.batches import packed_sequences, slice_for_context_parallel
    from trainwright.runner.models import build_model

    config = configuration(model)
    start_groups(config)
    (built,) = build_model(config, vocab_size=VOCABULARY)
    built.eval()
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
        return found

    with torch.no_grad():
        packed = logits(ids, places, BOUNDS)
        alone = [logits(ids[:, begin:end], places[:, begin:end], (0, end - begin)) for begin, end in pairwise(BOUNDS)]
    parallel_state.destroy_model_parallel()
    wanted = torch.cat(alone, dim=1)
    return (packed - wanted).abs().max().item(), wanted.abs().max().item()


@pytest.fixture(scope="module", params=[1, 2], ids=["one rank", "CP2"])
def found(request):
    return run_ranks(differences, request.param, {"context_parallel_size": request.param})


@pytest.mark.parametrize("family", MODELS)
def test_packed_sequences_have_the_logits_that_each_has_alone(found, family):
    for rank in found:
        difference, largest = rank[family]
        assert largest > 0.1
        assert difference < 1e-5
