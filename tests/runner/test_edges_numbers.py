"""Numbers that no topology and no validation may change."""

import json
import os
from itertools import pairwise

import pytest
import torch
from tests.runner.training import TINY, losses, records

from trainwright.runner.testing import run_ranks

pytestmark = pytest.mark.distributed
GATE = 1e-5
TP2 = ("model.tensor_model_parallel_size=2", "model.sequence_parallel=true")
VALIDATES = ("validation.eval_interval=3", "validation.eval_iters=2")
# What `vanilla_gpt` has beside the Llama of the other tests: learned positions, LayerNorm, biases, GELU.
GPT = [word for word in TINY if not word.startswith(("model.rope", "model.num_query_groups"))]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Lines of the standard library, each one to six a document: most sequences hold ends of documents."""
    from trainwright.datasets.prepare import prepare
    from trainwright.recipes.config.data import TokenizerConfig

    folder = tmp_path_factory.mktemp("data")
    with open(os.path.join(os.path.dirname(os.__file__), "argparse.py"), encoding="utf-8") as source:
        lines = source.read().splitlines()
    starts = [0]
    while starts[-1] < len(lines):
        starts.append(starts[-1] + (1, 1, 2, 6)[len(starts) % 4])
    texts = ["\n".join(lines[begin:end]) or " " for begin, end in pairwise(starts)]
    (folder / "short.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    prepare([folder / "short.jsonl"], folder / "short", TokenizerConfig(tokenizer_type="ByteLevelTokenizer"), workers=1)
    return str(folder / "short")


def train_gpt(world_size, run_dir, data, *words):
    """Six updates of a tiny `vanilla_gpt` on one of `world_size` ranks."""
    from trainwright.recipes import Selection, resolve
    from trainwright.runner.run import run

    words = [*GPT, "train.train_iters=6", f"dataset.data_path={data}", "dataset.split='80,20,0'", *words]
    selection = Selection(recipe="vanilla_gpt_pretrain_config", mode="pretrain", dataset="megatron-indexed")
    return run(resolve(selection, words, world_size=world_size, device="cpu"), run_dir=run_dir)


def validation_losses(run_dir):
    return {record["step"]: record["loss"] for record in records(run_dir) if record["event"] == "val"}


def norms(run_dir):
    return {record["step"]: record["grad_norm"] for record in records(run_dir) if record["event"] == "train"}


@pytest.fixture(scope="module")
def single(data, tmp_path_factory):
    """Words that start from common weights, and the run of a single rank."""
    folder = tmp_path_factory.mktemp("single")
    assert run_ranks(train_gpt, 1, 1, folder / "first", data, "train.train_iters=1", "optimizer.min_lr=0") == [0]
    weights = f"checkpoint.pretrained_checkpoint={folder / 'first' / 'checkpoints'}"
    assert run_ranks(train_gpt, 1, 1, folder / "run", data, weights, *VALIDATES) == [0]
    return weights, folder / "run"


@pytest.mark.parametrize(
    "words",
    [TP2, ("model.pipeline_model_parallel_size=2", "model.virtual_pipeline_model_parallel_size=2")],
    ids=["TP2+SP", "PP2 VP2"],
)
def test_training_and_validation_loss_of_a_gpt_are_the_single_ranks(data, single, tmp_path, words):
    weights, whole = single
    assert run_ranks(train_gpt, 2, 2, tmp_path / "run", data, weights, *VALIDATES, *words) == [0, 0]
    assert losses(tmp_path / "run") == pytest.approx(losses(whole), rel=GATE)
    assert validation_losses(tmp_path / "run") == pytest.approx(validation_losses(whole), rel=GATE)
    assert sorted(validation_losses(whole)) == [3, 6]


def test_a_validation_leaves_training_as_it_is_bit_for_bit(data, tmp_path):
    dropout = ("model.hidden_dropout=0.1", "model.attention_dropout=0.1")
    for name, words in (("with", VALIDATES), ("without", ())):
        assert run_ranks(train_gpt, 1, 1, tmp_path / name, data, *dropout, *words) == [0]
    assert losses(tmp_path / "with") == losses(tmp_path / "without")


MASKED = ("dataset.eod_mask_loss=true", "dataset.reset_position_ids=true")


@pytest.fixture(scope="module")
def masked(data, tmp_path_factory):
    """The run of a single rank where ends of documents do not count."""
    run_dir = tmp_path_factory.mktemp("masked") / "run"
    assert run_ranks(train_gpt, 1, 1, run_dir, data, *MASKED) == [0]
    return run_dir


@pytest.mark.parametrize(
    ("ranks", "words"),
    [(1, ("train.micro_batch_size=8",)), (2, ("model.context_parallel_size=2",)), (2, ("train.micro_batch_size=1",))],
    ids=["micro batch 8", "CP2", "DP2, micro batch 1"],
)
def test_with_masked_tokens_loss_and_gradient_are_one_mean_over_the_global_batch(data, masked, tmp_path, ranks, words):
    supervised = {record["supervised_tokens"] for record in records(masked) if record["event"] == "train"}
    assert len(supervised) > 1 and max(supervised) < 8 * 64
    assert run_ranks(train_gpt, ranks, ranks, tmp_path / "run", data, *MASKED, *words) == [0] * ranks
    assert losses(tmp_path / "run") == pytest.approx(losses(masked), rel=GATE)
    assert norms(tmp_path / "run") == pytest.approx(norms(masked), rel=GATE)


def first_numbers(world_size):
    """What a pipeline stage draws first, for weights and outside of them."""
    from trainwright.recipes import Selection, resolve
    from trainwright.runner.devices import use_device
    from trainwright.runner.distributed import place, start

    words = ["model.pipeline_model_parallel_size=2", "scheduler.lr_warmup_iters=0"]
    resolved = resolve(Selection(recipe="vanilla_gpt_pretrain_config"), words, world_size=world_size, device="cpu")
    start(resolved.config, use_device("cpu"), place())
    from megatron.core import tensor_parallel

    with tensor_parallel.get_cuda_rng_tracker().fork():
        weights = torch.rand(3).tolist()
    return weights, torch.rand(3).tolist()


def test_pipeline_stages_do_not_begin_with_the_same_weights():
    first, second = run_ranks(first_numbers, 2, 2)
    assert first[0] != second[0] and first[1] != second[1]
