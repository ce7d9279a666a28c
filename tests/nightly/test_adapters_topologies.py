"""Adapters of every kind of layer at every kind of topology, and what the gate of their tests catches."""

import pytest
from tests.runner import adapter_faults as faults
from tests.runner import adapter_training as training
from tests.runner.test_adapters_topologies import (
    DORA,
    EXPERTS,
    GATE,
    GQA,
    LATENTS,
    LORA,
    OVERLAPPED,
    Case,
    difference,
    settings,
)
from tests.runner.test_parallelism_families import ALL_AGAIN, CP2, EP2, ETP1, PARTS_AGAIN, PP2, SHARDED, TP2

pytestmark = pytest.mark.distributed

SINKS, FURTHER = "sinks and windows", "further predictions"
CORE_AND_FEED_FORWARD = (PARTS_AGAIN[0], "model.recompute_modules=[core_attn,mlp]")
# That dispatcher takes as many tokens of every rank.
PADDED = "dataset.dataset_kwargs.pad_to_max_length=true"
TOPOLOGIES: dict[str, tuple[int, tuple[str, ...]]] = {
    "TP2": (2, TP2),
    "TP2 without sequence parallelism": (2, TP2[:1]),
    "PP2": (2, PP2),
    "CP2": (2, CP2),
    "DP2": (2, ()),
    "DP2, distributed optimizer": (2, SHARDED),
    "TP2 x PP2": (4, (*TP2, *PP2)),
    "PP2 x DP2, all overlapped": (4, (*PP2, *OVERLAPPED)),
    "all recomputed": (1, ALL_AGAIN),
    "parts recomputed": (1, CORE_AND_FEED_FORWARD),
    "latents recomputed": (1, PARTS_AGAIN),
    "EP2": (2, EP2),
    "EP2, all-gather": (2, (*EP2, "model.moe_token_dispatcher_type=allgather", PADDED)),
    "TP2, experts whole": (2, (*TP2, *ETP1)),
    "EP2 x TP2, experts whole": (2, (*EP2, *TP2, *ETP1)),
    "EP2 x TP2": (4, (*EP2, *TP2)),
    "EP2 x DP2, distributed optimizer": (4, (*EP2, *SHARDED)),
}
OF_EXPERTS = [name for name in TOPOLOGIES if "EP2" in name or "experts" in name]
PAIRS = [
    *((GQA, name) for name in TOPOLOGIES if name not in OF_EXPERTS and name != "latents recomputed"),
    *((EXPERTS, name) for name in ("TP2", *OF_EXPERTS)),
    *((LATENTS, name) for name in ("TP2", "PP2", "CP2", "all recomputed", "latents recomputed", *OF_EXPERTS[:1])),
    *((SINKS, name) for name in ("TP2", "EP2")),
    *((FURTHER, name) for name in ("TP2", "PP2", "all recomputed")),
]


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    return settings(tmp_path_factory.mktemp)


@pytest.mark.parametrize("scheme", ["lora", "dora"])
@pytest.mark.parametrize(("kind", "topology"), PAIRS)
def test_losses_and_gradients_are_those_of_one_rank(setting, tmp_path, kind, topology, scheme):
    case = Case(kind, {"lora": LORA, "dora": DORA}[scheme], *TOPOLOGIES[topology])
    assert difference(setting, case, tmp_path / "run") < GATE


def test_new_adapters_and_what_dropout_leaves_of_their_input_are_those_of_one_rank(setting, tmp_path):
    """Without sequence parallelism ranks see the same input of a layer whose rows they split."""
    root, words, _ = setting(GQA, DORA)
    new = [word for word in words if not word.startswith("checkpoint.load")]
    new += ["peft.target_modules=[linear_qkv]", "peft.dropout=0.2"]
    one, two = (
        training.curve(training.run(ranks, tmp_path / f"on {ranks}", root, *new, *topology))
        for ranks, topology in ((1, ()), (2, TP2[:1]))
    )
    assert training.worst(two, one) < GATE


CONTROLS = {
    "what lies between A and B has the gradient of one rank's rows": (GQA, 2, TP2, faults.train_with_own_gradients),
    "A of an expert has the gradient of one rank's rows": (EXPERTS, 2, TP2, faults.train_with_own_expert_gradients),
    "a row's length is that of one rank's columns": (GQA, 2, TP2, faults.train_with_own_lengths),
}


@pytest.mark.parametrize("control", CONTROLS)
def test_the_gate_catches_broken_adapters(setting, tmp_path, control):
    kind, ranks, topology, fault = CONTROLS[control]
    root, words, one = setting(kind, DORA)
    broken = training.run(ranks, tmp_path / "run", root, *words, *topology, by=fault)
    assert training.worst(training.curve(broken), one) > 10 * GATE
