"""A native checkpoint that Megatron's `GPTModel` wrote loads here, at any topology, under its new names."""

import pytest
import torch
from tests.runner.gpt_model_checkpoint import difference, write_all

from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed
GATE = 1e-5
TP2_PP2 = {"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2, "sequence_parallel": True}
CASES = [
    ("dense", True, 1, {}),
    ("dense", True, 4, TP2_PP2),
    ("dense", False, 1, {}),
    ("experts", True, 2, {"expert_model_parallel_size": 2}),
    ("experts", False, 1, {}),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Checkpoints of both kinds, with blocks stored together and one by one."""
    path = tmp_path_factory.mktemp("gpt")
    run_ranks(write_all, 1, path)
    return path


@pytest.mark.parametrize(("kind", "alike", "ranks", "topology"), CASES)
def test_logits_are_those_of_gpt_model(folder, kind, alike, ranks, topology):
    wanted = torch.load(folder / f"{kind}-{alike}.pt")
    differences = run_ranks(difference, ranks, folder / f"{kind}-{alike}", wanted, kind, topology)
    assert 0 < max(differences) < GATE


def test_what_it_is_is_said(folder):
    """It does not describe its model, so it can be loaded into one, and not exported."""
    from trainwright.runner.checkpoints.conversion import open_weights, require_model
    from trainwright.runner.errors import RunRefused

    weights = open_weights(folder / "dense-True")
    assert weights.kind == "native checkpoint of GPTModel"
    assert weights.model is None
    with pytest.raises(RunRefused, match="does not say what its model is: another program wrote it"):
        require_model(weights)
