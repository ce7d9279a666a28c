"""A shrunk model of every family: in, logits at several topologies, and out again bit for bit."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.runner.huggingface_models import MODELS, differences, make, save

from trainwright.runner.checkpoints.conversion import export_huggingface, import_huggingface
from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed
GATE = 1e-5
TP2_PP2 = {"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2, "sequence_parallel": True}
EP2 = {"expert_model_parallel_size": 2}
WHOLE_EXPERTS, SPLIT_EXPERTS = ({"expert_tensor_parallel_size": size} for size in (1, 2))
TOPOLOGIES = {
    1: {"one rank": {}},
    2: {"EP2": EP2, "TP2 ETP2": {"tensor_model_parallel_size": 2, "sequence_parallel": True, **SPLIT_EXPERTS}},
    4: {"TP2 PP2": TP2_PP2, "TP2 PP2 EP2": TP2_PP2 | EP2 | WHOLE_EXPERTS},
}
DENSE = ("llama", "llama, tied", "qwen3", "qwen3, tied")


def runs_at(name: str, topology: str) -> bool:
    """Whether the model has what the topology splits. Megatron Core splits no experts that have biases."""
    if name in DENSE:
        return topology in ("one rank", "TP2 PP2")
    return topology != "TP2 PP2" and (name, topology) != ("gpt_oss", "TP2 ETP2")


CASES = [
    (name, topology)
    for topologies in TOPOLOGIES.values()
    for topology in topologies
    for name in MODELS
    if runs_at(name, topology)
]


@dataclass(frozen=True)
class Trip:
    """A model on its way: as transformers saved it, as a native checkpoint, and exported."""

    source: Path
    native: Path
    back: Path
    logits: torch.Tensor


@pytest.fixture(scope="module")
def trips(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trip]:
    found = {}
    for name in MODELS:
        folder = tmp_path_factory.mktemp("model")
        trip = Trip(folder / "source", folder / "native", folder / "back", save(name, folder / "source"))
        import_huggingface(trip.source, trip.native, lambda _: None)
        export_huggingface(trip.native, trip.back, lambda _: None, largest=100_000)
        found[name] = trip
    return found


@pytest.fixture(scope="module")
def found(trips: dict[str, Trip]) -> dict[tuple[str, str], float]:
    """Largest difference of logits, by model and topology; several ranks read the Hugging Face directory itself."""
    result = {}
    for ranks, topologies in TOPOLOGIES.items():
        for topology, fields in topologies.items():
            cases = {
                name: (trip.native if ranks == 1 else trip.source, trip.logits, fields)
                for name, trip in trips.items()
                if (name, topology) in CASES
            }
            for by_name in run_ranks(differences, ranks, cases):
                for name, difference in by_name.items():
                    result[name, topology] = max(result.get((name, topology), 0.0), difference)
    return result


@pytest.mark.parametrize(("name", "topology"), CASES)
def test_logits_equal_those_of_transformers(trips, found, name, topology):
    assert trips[name].logits.abs().max() > 1  # logits near zero would agree by being small
    assert 0 < found[name, topology] < GATE


@pytest.mark.parametrize("name", MODELS)
def test_an_exported_model_has_the_original_tensors_bit_for_bit(trips, name):
    assert tensors(trips[name].back).keys() == tensors(trips[name].source).keys()
    for key, tensor in tensors(trips[name].source).items():
        other = tensors(trips[name].back)[key]
        assert tensor.dtype == other.dtype, key
        assert torch.equal(tensor, other), key


@pytest.mark.parametrize("name", MODELS)
def test_transformers_computes_the_same_from_an_exported_model(trips, name):
    from tests.runner.huggingface_models import ids

    exported = type(make(name)).from_pretrained(trips[name].back).eval()
    with torch.no_grad():
        assert torch.equal(exported(input_ids=ids()).logits, trips[name].logits)
    index = json.loads((trips[name].back / "model.safetensors.index.json").read_text())
    assert sorted(set(index["weight_map"].values())) == sorted(
        path.name for path in trips[name].back.glob("*.safet*rs")
    )


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    """Everything in a directory's safetensors files."""
    return {name: tensor for file in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(file).items()}
