"""Fine-tuning here gives the loss curve of transformers and peft. Every family and topology: `nox -s nightly`."""

import pytest
from tests.runner.finetune_comparison import ALPHA, GATE, STACKED, Comparison, optimizer, worst
from tests.runner.finetune_reference import curve

pytestmark = pytest.mark.distributed

CASES = (
    ("llama, tied", "sft", "packed beforehand", "TP2 PP2"),
    ("deepseek", "sft", "packed in the batch", "EP2"),
    ("qwen3", "lora", "padded", "one rank"),
    ("gpt_oss", STACKED, "packed in the batch", "one rank"),
    ("qwen3_moe", "dora", "packed in the batch", "EP2"),
)
CONTROLS = {
    "a rate a tenth higher": ("sft", "optimizer.lr=0.0033", "optimizer.min_lr=0.0033"),
    "prompts learnt too": ("sft", "dataset.preprocessing.loss=all"),
    "weights decay less": ("lora", "optimizer.weight_decay=0.05"),
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
    scheme, *words = CONTROLS[name]
    theirs = comparison.theirs("qwen3", scheme, "padded")
    assert worst(comparison.ours("qwen3", scheme, "padded", "one rank", *words), theirs) > 2 * GATE


@pytest.mark.parametrize("change", ["alpha", "dora"])
def test_another_adapter_does_not_pass_the_gate(comparison, change):
    """Twice the scale; the same matrices and learnt lengths beside them."""
    ours = comparison.ours("qwen3", "lora", "padded", "one rank")
    alpha, scheme = (2 * ALPHA, "lora") if change == "alpha" else (ALPHA, "dora")
    model = comparison.model("qwen3", scheme, alpha=alpha)
    assert worst(ours, curve(model, comparison.updates("padded"), optimizer("lora"))) > 2 * GATE
