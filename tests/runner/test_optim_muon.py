"""Muon: which weights are its own, and the same training on more ranks."""

import pytest
from tests.runner.training import corpus, losses, records, train, train_on, train_until

from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed

GATE = 1e-5
MUON = ("optimizer.optimizer=muon", "optimizer.muon_nesterov=true", "optimizer.lr=0.005", "optimizer.min_lr=0.005")
TP2 = ("model.tensor_model_parallel_size=2", "model.sequence_parallel=true")
EXPERTS = (
    "model.num_moe_experts=4",
    "model.moe_ffn_hidden_size=64",
    "model.moe_router_load_balancing_type=none",
    "model.share_embeddings_and_output_weights=false",
)
EP2 = ("model.expert_model_parallel_size=2",)
TOPOLOGIES = {
    "TP2": ((), TP2),
    "TP2, orthogonalized together": ((), (*TP2, "optimizer.muon_tp_mode=distributed")),
    "PP2": ((), ("model.pipeline_model_parallel_size=2",)),
    "DP2": ((), ()),
    "experts EP2": (EXPERTS, EP2),
}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A corpus, and by model: words that name the weights that all start from, and the losses of one rank."""
    folder = tmp_path_factory.mktemp("muon")
    data, models = corpus(folder), {}
    for number, words in enumerate([(), EXPERTS]):
        weights, single = folder / f"weights{number}", folder / f"single{number}"
        untouched = ("train.train_iters=1", "optimizer.lr=1e-12", "optimizer.min_lr=1e-12")
        assert run_ranks(train, 1, weights, data, *words, *untouched) == [0]
        models[words] = ((*words, f"checkpoint.pretrained_checkpoint={weights / 'checkpoints'}"), single)
        assert run_ranks(train, 1, single, data, *models[words][0], *MUON) == [0]
    return data, {words: (more, losses(single)) for words, (more, single) in models.items()}


def worst(reference: dict[int, float], other: dict[int, float]) -> float:
    """The largest relative difference over all updates."""
    assert sorted(reference) == sorted(other) == list(range(1, 11))
    return max(abs(other[step] - loss) / loss for step, loss in reference.items())


def owners() -> dict[str, list[str]]:
    """Names of weights by the optimizer that has them, of a GPT with learnt positions and experts."""
    from tests.runner.megatron_training import build
    from tests.runner.small_models import GPT, configuration, start_groups

    experts = {"num_moe_experts": 2, "moe_ffn_hidden_size": 32, "share_embeddings_and_output_weights": False}
    config = configuration(GPT | experts | {"num_layers": 1}, optimizer={"optimizer": "muon"})
    start_groups(config)
    chunks, optimizer, _ = build(config, 200)
    names = {parameter: name.removeprefix("module.") for name, parameter in chunks[0].named_parameters()}
    found: dict[str, list[str]] = {}
    for part in optimizer.chained_optimizers:
        kind = "Muon" if "Muon" in type(part.optimizer).__name__ else "Adam"
        found.setdefault(kind, []).extend(names.pop(parameter) for parameter in part.get_parameters())
    assert not names
    return found


def test_muon_has_the_matrices_of_layers_and_adam_the_rest():
    found = run_ranks(owners, 1)[0]
    assert sorted(found["Muon"]) == [
        "decoder.layers.0.self_attention.linear_proj.weight",
        "decoder.layers.0.self_attention.linear_qkv.weight",
        *(
            f"decoder.layers.1.mlp.experts.local_experts.{expert}.linear_fc{layer}.weight"
            for expert in range(2)
            for layer in (1, 2)
        ),
        "decoder.layers.1.mlp.router.weight",
    ]
    assert {"embedding.word_embeddings.weight", "embedding.position_embeddings.weight", "output_layer.weight"} < set(
        found["Adam"]
    )


def test_muon_learns(start):
    for _, reference in start[1].values():
        assert reference[10] < 0.8 * reference[1]


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_muon_trains_the_same_on_more_ranks(start, tmp_path, name):
    model, layout = TOPOLOGIES[name]
    words, reference = start[1][model]
    assert run_ranks(train_on, 2, 2, tmp_path / "run", start[0], *words, *MUON, *layout) == [0, 0]
    assert worst(reference, losses(tmp_path / "run")) < GATE


def test_blockwise_muon_is_another_training_on_more_ranks(start, tmp_path):
    words, reference = start[1][()]
    blockwise = (*TP2, "optimizer.muon_tp_mode=blockwise")
    assert run_ranks(train_on, 2, 2, tmp_path / "run", start[0], *words, *MUON, *blockwise) == [0, 0]
    assert worst(reference, losses(tmp_path / "run")) > 100 * GATE


def test_ranks_that_share_matrices_out_train_bit_for_bit_as_those_that_do_not(start, tmp_path):
    # Clipping would divide by a norm that the two sum in another order.
    words = (*EXPERTS, *EP2, "mixed_precision=bf16_mixed", "optimizer.clip_grad=0", "train.train_iters=4")
    for name in ("muon", "dist_muon"):
        run_dir = tmp_path / name
        assert run_ranks(train_on, 2, 2, run_dir, start[0], *words, f"optimizer.optimizer={name}") == [0, 0]
    assert losses(tmp_path / "muon") == losses(tmp_path / "dist_muon")


def test_a_run_that_shares_matrices_out_goes_on_between_other_ranks(start, tmp_path):
    words = ("mixed_precision=bf16_mixed", "optimizer.optimizer=dist_muon", "train.train_iters=8")
    assert run_ranks(train_on, 1, 1, tmp_path / "whole", start[0], *words) == [0]
    assert run_ranks(train_until, 2, "SIGTERM 3", 2, tmp_path / "run", start[0], *words) == [75, 75]
    assert run_ranks(train, 1, tmp_path / "run", start[0], *words) == [0]
    whole, resumed = losses(tmp_path / "whole"), losses(tmp_path / "run")
    assert sorted(resumed) == sorted(whole)
    # In 16 bits; with moments that start anew it is ten times as much.
    assert max(abs(resumed[step] - loss) / loss for step, loss in whole.items()) < 2e-3


def test_a_muon_run_goes_on_bit_for_bit(start, tmp_path):
    words, reference = start[1][()]
    run_dir = tmp_path / "run"
    assert run_ranks(train_until, 1, "SIGTERM 4", 1, run_dir, start[0], *words, *MUON) == [75]
    assert run_ranks(train, 1, run_dir, start[0], *words, *MUON) == [0]
    assert losses(run_dir) == reference
    assert [record["event"] for record in records(run_dir)].count("session_interrupted") == 1
