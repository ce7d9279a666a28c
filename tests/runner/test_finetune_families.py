"""Fine-tuning here gives the loss curve that transformers gives. All families and topologies: `nox -s nightly`."""

import pytest
from tests.runner.finetune_comparison import GATE, Comparison, worst

pytestmark = pytest.mark.distributed

CASES = (
    ("llama, tied", "sft", "packed beforehand", "TP2 PP2"),
    ("deepseek", "sft", "packed in the batch", "EP2"),
    ("gpt_oss", "sft", "padded", "one rank"),
)
CONTROLS = {
    "a rate a tenth higher": ("qwen3", "sft", "optimizer.lr=0.0033", "optimizer.min_lr=0.0033"),
    "prompts learnt too": ("qwen3", "sft", "dataset.preprocessing.loss=all"),
}


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    return Comparison(tmp_path_factory.mktemp("families"))


@pytest.mark.parametrize(("family", "scheme", "layout", "topology"), CASES)
def test_the_loss_curve_is_that_of_transformers(comparison, family, scheme, layout, topology):
    theirs = comparison.theirs(family, scheme, layout)
    assert theirs[-1] < 0.5 * theirs[0]  # something is learnt
    assert worst(comparison.ours(family, scheme, layout, topology), theirs) < GATE


@pytest.mark.parametrize("name", CONTROLS)
def test_another_training_does_not_pass_the_gate(comparison, name):
    family, scheme, *words = CONTROLS[name]
    theirs = comparison.theirs(family, scheme, "padded")
    assert worst(comparison.ours(family, scheme, "padded", "one rank", *words), theirs) > 2 * GATE
