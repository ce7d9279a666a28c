"""Logits of Llama 3.2 1B's architecture, shrunk, against transformers on the same weights."""

import pytest
from tests.runner.llama_reference import logits_differences

from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed

GATE = 1e-5
TP2 = {"tensor_model_parallel_size": 2, "sequence_parallel": True}
CASES = {
    1: {"tied": {}, "untied": {"share_embeddings_and_output_weights": False}, "unscaled": {"rope_scaling": False}},
    2: {
        "TP2+SP": TP2,
        "TP2+SP, more ranks than key/value heads": TP2 | {"num_query_groups": 1},
        "CP2": {"context_parallel_size": 2},
    },
}
CONTROL = "unscaled"


@pytest.fixture(scope="module")
def differences() -> dict[str, list[tuple[float, float]]]:
    """By case: the largest difference on each rank, and the largest logit."""
    found: dict[str, list[tuple[float, float]]] = {}
    for ranks, cases in CASES.items():
        results = run_ranks(logits_differences, ranks, cases)
        found |= {name: [result[name] for result in results] for name in cases}
    return found


@pytest.mark.parametrize("case", [name for cases in CASES.values() for name in cases if name != CONTROL])
def test_logits_equal_those_of_transformers(differences, case):
    for difference, largest in differences[case]:
        assert largest > 1  # logits near zero would agree by being small
        assert difference < GATE


def test_the_gate_notices_frequencies_that_are_not_scaled(differences):
    assert differences[CONTROL][0][0] > 100 * GATE
