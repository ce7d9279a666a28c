"""Operations of each family as counted, against the matrix products that torch really makes."""

from typing import Any

import pytest
import torch
from tests.runner.family_reference import MODELS
from tests.runner.small_models import VOCABULARY, configuration, positions, start_groups, tokens

from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed

CASES: dict[str, dict[str, Any]] = MODELS | {
    "deepseek_v3 with further predictions": MODELS["deepseek_v3"] | {"mtp_num_layers": 2},
    "one latent block": MODELS["moonlight"] | {"num_layers": 1, "num_moe_experts": None, "moe_layer_freq": 1},
}


def products() -> dict[str, tuple[float, float]]:
    """By case, of a forward pass over 2 sequences of 64: operations that torch counts, and ours."""
    return {name: _products(model) for name, model in CASES.items()}


def _products(model: dict[str, Any]) -> tuple[float, float]:
    from megatron.core import parallel_state
    from torch.utils.flop_counter import FlopCounterMode

    from trainwright.recipes.flops import PASSES, floating_point_operations
    from trainwright.runner.models import build_model

    config = configuration(model)
    start_groups(config)
    (built,) = build_model(config, vocab_size=VOCABULARY)
    ids = tokens()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        built.eval()(ids, positions(ids), None, labels=ids)
    parallel_state.destroy_model_parallel()
    kinds = counter.get_flop_counts()["Global"]
    counted = sum(count for kind, count in kinds.items() if "attention" not in str(kind))
    return counted, floating_point_operations(config).per_position / PASSES * ids.numel()


@pytest.fixture(scope="module")
def found() -> dict[str, tuple[float, float]]:
    return run_ranks(products, 1)[0]


@pytest.mark.parametrize("case", CASES)
def test_operations_are_those_of_all_matrix_products(found, case):
    counted, ours = found[case]
    assert ours == pytest.approx(counted, rel=1e-6)
