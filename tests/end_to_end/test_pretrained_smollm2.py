"""A published model, SmolLM2-135M-Instruct, from transformers to Megatron Core and back."""

from pathlib import Path
from typing import Any

import pytest
import torch

from trainwright.recipes import ConfigError, Selection, resolve
from trainwright.runner.checkpoints.conversion import export_huggingface, import_huggingface
from trainwright.runner.huggingface.families import family_of_folder
from trainwright.runner.huggingface.folder import HuggingFaceFolder
from trainwright.runner.testing import run_ranks

pytestmark = [pytest.mark.distributed, pytest.mark.slow]
PARAMETERS, TOKENS, GATE = 134_515_008, 256, 1e-4
TEXT = "Question: what is the capital of France? Answer: The capital of France is"


@pytest.fixture(scope="module")
def imported(published: Path) -> Path:
    """It as a native checkpoint."""
    weights = import_huggingface(published, published.parent / "native", lambda _: None)
    elements = sum(torch.Size(weight.shape).numel() for weight in weights.held.values())
    assert elements == PARAMETERS
    return published.parent / "native"


def difference_on_rank(checkpoint: Path, ids: torch.Tensor, wanted: torch.Tensor, tensor_parallel: int) -> float:
    """The largest one of the checkpoint's logits to `wanted`, at a tensor parallel size."""
    from megatron.core import parallel_state
    from tests.runner.small_models import start_groups

    from trainwright.runner.checkpoints.conversion import open_weights, require_model
    from trainwright.runner.checkpoints.pretrained import fill
    from trainwright.runner.checkpoints.verification import plain_run
    from trainwright.runner.models import build_model

    weights = open_weights(checkpoint)
    model = require_model(weights)
    plain = plain_run(model, ids.size(1))
    topology = {"tensor_model_parallel_size": tensor_parallel, "sequence_parallel": False}
    config = plain.model_copy(update={"model": plain.model.model_copy(update=topology)})
    start_groups(config)
    (chunk,) = build_model(config, vocab_size=int(model.vocab_size or 0))
    fill([chunk], weights)
    with torch.no_grad():
        found = chunk.eval()(ids, torch.arange(ids.size(1))[None], None, runtime_gather_output=True)
    parallel_state.destroy_model_parallel()
    return (found[..., : model.vocab_size] - wanted).abs().max().item()


@pytest.fixture(scope="module")
def reference(published: Path) -> Any:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(published)
    text = " ".join(path.read_text() for path in sorted(Path(__file__).parents[2].glob("docs/*.md")))
    ids = tokenizer(text, return_tensors="pt").input_ids[:, :TOKENS]
    assert ids.size(1) == TOKENS
    with torch.no_grad():
        return ids, AutoModelForCausalLM.from_pretrained(published, dtype=torch.float32)(ids).logits


@pytest.mark.parametrize("tensor_parallel", [1, 3])
def test_logits_are_those_of_transformers(imported: Path, reference: Any, tensor_parallel: int) -> None:
    ids, wanted = reference
    assert wanted.abs().max() > 10
    assert max(run_ranks(difference_on_rank, tensor_parallel, imported, ids, wanted, tensor_parallel)) < GATE


def test_a_tensor_parallel_size_that_does_not_divide_its_nine_heads_is_refused(published: Path) -> None:
    _, model, _ = family_of_folder(HuggingFaceFolder(published))
    sizes = ("num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "kv_channels", "ffn_hidden_size")
    words = [f"model.{name}={getattr(model, name)}" for name in sizes] + ["model.rope_scaling=false"]
    selection = Selection(recipe="llama32_1b_pretrain_config", mode="pretrain", dataset="mock")
    resolve(selection, [*words, "model.tensor_model_parallel_size=3"], world_size=3, device="cpu")
    with pytest.raises(ConfigError, match=r"num_attention_heads.*9"):
        resolve(selection, [*words, "model.tensor_model_parallel_size=2"], world_size=2, device="cpu")


def test_it_comes_back_bit_for_bit_and_still_knows_the_capital_of_france(published: Path, imported: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    back = published.parent / "back"
    export_huggingface(imported, back, lambda _: None)
    before, after = (AutoModelForCausalLM.from_pretrained(path, dtype="auto") for path in (published, back))
    assert all(torch.equal(tensor, after.state_dict()[name]) for name, tensor in before.state_dict().items())
    tokenizer = AutoTokenizer.from_pretrained(back)
    assert tokenizer.chat_template == AutoTokenizer.from_pretrained(published).chat_template
    ids = tokenizer(TEXT, return_tensors="pt").input_ids
    answer = after.generate(ids, max_new_tokens=4, do_sample=False)[0, ids.size(1) :]
    assert "Paris" in tokenizer.decode(answer)
